#!/bin/sh
# try.sh PACKAGE: tries the package in an empty folder as its first user would: one text of one's
# own, trained on alone, then served to two members. Needs nothing but a shell and basic commands.
# SECOND is how the second member's program is started, if it is another one.
set -eu
PATH=$1/bin:/usr/bin:/bin
recipes=$1/recipes
small="model.hidden=32 model.layers=1 model.heads=2 train.batch=4 train.sequence=32 train.threads=1 schedule.warmup=2 log.tensorboard=false"

stop() { [ -z "${server:-}" ] || kill "$server" 2>/dev/null || true; }
trap stop EXIT

thinwire --version
nats-server --version
i=0
while [ $i -lt 4000 ]; do
  echo "line $i says that $((i * 7919 % 1009)) thin wires carry $((i * 31 % 97)) words"
  i=$((i + 1))
done >own.txt

own="data.text=own.txt data.vocabulary_size=300 run.seed=3"
# shellcheck disable=SC2086 # lists of fields
{
  thinwire prepare $recipes/tiny.toml $own
  thinwire train $recipes/tiny.toml $own $small train.steps=20 run.dir=alone
  thinwire generate alone --prompt line --tokens 8

  thinwire serve $recipes/tiny.toml $own $small train.steps=20 run.dir=served sync.method=distro \
    --listen 127.0.0.1:0 --ready-file ready.json >serve.log 2>&1 &
  server=$!
  until [ -s ready.json ]; do
    kill -0 $server || { cat serve.log; exit 1; }
    sleep 0.1
  done
}
address=$(sed -n 's/.*"address": *"\([^"]*\)".*/\1/p' ready.json)
token=$(sed -n 's/.*"token": *"\([^"]*\)".*/\1/p' ready.json)
thinwire join "$address" --token "$token" run.dir=one train.threads=1 >one.log 2>&1 &
one=$!
# shellcheck disable=SC2086 # a command
${SECOND:-thinwire} join "$address" --token "$token" run.dir=two train.threads=1 >two.log 2>&1 || { cat two.log; exit 1; }
wait $one || { cat one.log; exit 1; }
wait $server || { cat serve.log; exit 1; }
server=
for run in served one two; do sed -n 's/.*"digest": *"\([^"]*\)".*/\1/p' $run/summary.json; done >digests
[ "$(wc -l <digests)" = 3 ] && [ "$(sort -u digests | wc -l)" = 1 ]
echo "served: three equal digests, $(sed 1q digests)"
