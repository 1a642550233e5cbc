"""The runs of bench/links, and what is computed from their logs and their links' counters."""

import json
import subprocess

import hosts_run
import shaped_links

SETTLING = 2  # first steps of a run that do not count: members are still starting
ALWAYS = ["log.tensorboard=false", "eval.every=0", "schedule.warmup=2", "optim.lr=0.003", "sync.timeout_s=600"]

# 21.69 M parameters: a snapshot of 86.8 MB.
LINE_MODEL = ["model.hidden=512", "model.layers=6", "model.heads=8", "llama.intermediate=1642", "train.sequence=32",
              "sync.method=distro", "distro.values=bf16", "distro.k=192"]
SNAPSHOT_BYTES = 4 * 21_694_976  # its weights
SNAPSHOT_GAP = 0.8  # it may pause while the server or the member waits for a processor
LINE_STEPS = 8
LINE_ROW_SECONDS = 3  # longer than a step's own work, so that members send at the same time

# 2.75 M parameters.
MODEL = ["model.hidden=256", "model.layers=4", "model.heads=4", "llama.intermediate=512", "train.sequence=64"]
ROWS = 4  # a member's in each step
# k 448 sends as many bytes for each second of computation as the DisTrO report's model of 1.2 B does on
# members of 150 TFLOP/s each (docs/planner.md): 108 kB.
CASES = {
    "distro": ["sync.method=distro", "distro.k=64"],
    "distro, thick": ["sync.method=distro", "distro.k=448"],
    "distro, thick, overlap": ["sync.method=distro", "distro.k=448", "distro.overlap=1", "distro.look_ahead=true"],
    "allreduce": ["sync.method=allreduce"],  # the coordinator sums
    "allreduce, members sum": ["sync.method=allreduce", "sync.sums=members"],
}
ALL_REDUCE_STEPS = 10  # they take long
ASKED = 100  # rounds after which the coordinator asks a member for a snapshot
AFTER = 30  # steps in which it goes up
SNAPSHOT_SHARE = 0.4  # of --row-seconds, so that 130 steps do not take too long


def median(values):
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


class Steps:
    """The steps of a member that count, from its log."""

    def __init__(self, folder):
        events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        steps = [event for event in events if event["event"] == "step"]
        self.steps = steps[SETTLING:]
        self.ends = [event["time"] for event in steps[SETTLING - 1:]]
        self.seconds = [after - before for before, after in zip(self.ends, self.ends[1:])]
        self.working = [seconds - step["seconds"]["exchange"] for seconds, step in zip(self.seconds, self.steps)]

    def mean(self, field):
        return sum(step[field] for step in self.steps) / len(self.steps)


class Bench:
    def __init__(self, arguments, root):
        self.arguments, self.root = arguments, root
        self.up, self.down = 1e6 * arguments.up, 1e6 * arguments.down
        self.wrong = []

    def train(self, name, fields, row_seconds, shaped=True):
        """Runs it to its end. Returns the steps of each member, the counters of the links, the digest."""
        rates = (self.up, self.down) if shaped else (None, None)
        with shaped_links.Network(self.arguments.members, *rates) as network:
            with shaped_links.Counters(network) as counters:
                run = hosts_run.HostsRun(self.arguments.program, self.root, name, [*ALWAYS, *fields],
                                         f"{shaped_links.ADDRESS}.1:0", network.place(network.server))
                try:
                    for number, member in enumerate(network.members):
                        run.join(f"member{number + 1}", "--row-seconds", row_seconds, place=network.place(member))
                    ends = run.finish()
                finally:
                    run.end()
        self.wrong += [f"{name}: {what}" for what in run.wrong]
        if run.wrong:
            hosts_run.fail(f"{name}: {'; '.join(run.wrong)}; what the processes said is in {self.root}")
        return [Steps(run.folder / member) for member in run.members], counters.links, ends["serve"]["digest"]

    def line_rate(self):
        members = self.arguments.members
        steps, links, _ = self.train("line", [
            *LINE_MODEL, f"train.workers={members}", f"train.batch={members}", f"train.steps={LINE_STEPS}"],
            LINE_ROW_SECONDS)
        figures = {name: {"seconds": [], "share": [], "overhead": []} for name in ("snapshot", "payload", "received")}
        figures["turn"] = []
        for own, link in zip(steps, links):
            sent, received = own.mean("bytes_sent"), own.mean("bytes_received")
            snapshot = max(link.transfers(link.DOWN, SNAPSHOT_GAP), key=lambda one: one[2])
            add(figures["snapshot"], link, link.DOWN, snapshot, SNAPSHOT_BYTES)
            for begin, end in zip(own.ends, own.ends[1:]):
                up, down = ([one for one in link.transfers(side) if begin <= one[0] < end and one[2] > least / 2]
                            for side, least in ((link.UP, sent), (link.DOWN, received)))
                if len(up) != 1 or len(down) != 1:
                    continue  # another process kept this one from its processor
                add(figures["payload"], link, link.UP, up[0], sent)
                add(figures["received"], link, link.DOWN, down[0], received)
                figures["turn"].append(down[0][0] - up[0][1])
        return figures

    def during_snapshot(self):
        """Seconds of a step by DisTrO before and while a member's snapshot goes up."""
        members = self.arguments.members
        steps, links, digest = self.train("snapshot", [
            *MODEL, *CASES["distro"], f"train.workers={members}", f"train.batch={ROWS * members}",
            f"train.steps={ASKED + AFTER}"], SNAPSHOT_SHARE * self.arguments.row_seconds)
        own = steps[0]
        begun = own.ends[ASKED - SETTLING - 1]
        uploads = [one for link in links for one in link.transfers(link.UP, SNAPSHOT_GAP) if one[0] > begun]
        begin, end, moved = max(uploads, key=lambda one: one[2])
        spans = list(zip(own.ends, own.ends[1:]))
        return {"digest": digest, "bytes": moved, "upload_seconds": end - begin,
                "before": [after - before for before, after in spans if after < begin],
                "during": [after - before for before, after in spans if before < end and after > begin]}

    def compare(self, name):
        members = self.arguments.members
        count = ALL_REDUCE_STEPS if name.startswith("allreduce") else self.arguments.steps
        fields = [*MODEL, *CASES[name], f"train.workers={members}", f"train.batch={ROWS * members}",
                  f"train.steps={count}"]
        row_seconds = self.arguments.row_seconds
        folder = name.replace(", ", "-")
        free, _, free_digest = self.train(folder + "-unlimited", fields, row_seconds, shaped=False)
        own, links, digest = self.train(folder + "-shaped", fields, row_seconds)
        if digest != free_digest:
            self.wrong.append(f"{name}: digest {free_digest} over links without limits, {digest} over shaped ones")
        plan = self.plan(fields, median(free[0].working))
        begin, end = own[0].ends[0], own[0].ends[-1]
        steps = len(own[0].seconds)
        figures = {"digest": digest, "unlimited": free[0].seconds, "shaped": own[0].seconds, "plan": plan,
                   "sent": own[0].mean("bytes_sent"), "received": own[0].mean("bytes_received"),
                   "wire_sent": links[0].bytes(links[0].UP, begin, end) / steps,
                   "wire_received": links[0].bytes(links[0].DOWN, begin, end) / steps}
        figures["ratio"] = median(figures["shaped"]) / median(figures["unlimited"])
        figures["error"] = plan["seconds"] / median(figures["shaped"]) - 1
        return figures

    def plan(self, fields, seconds):
        """What `thinwire plan` says a step takes in the middle of the run, if one takes `seconds` without what
        it waits for others."""
        given = dict(field.split("=") for field in fields)
        method, tokens = given["sync.method"], ROWS * int(given["train.sequence"]) / seconds

        def cost(steps):
            done = subprocess.run(
                [self.arguments.program.resolve(), "plan", "recipe.toml", *ALWAYS, *fields, f"train.steps={steps}",
                 "--hosts", "--members", str(self.arguments.members), "--tokens-per-second", str(tokens), "--up", str(self.up),
                 "--down", str(self.down), "--delay", "0", "--json"],
                cwd=self.root, capture_output=True, text=True)
            if done.returncode != 0:
                hosts_run.fail(f"thinwire plan: {done.stderr}")
            return next(one for one in json.loads(done.stdout)["methods"]
                        if (one["method"], one["setting"]) == (method, ""))

        short, long = cost(20), cost(40)
        return {"sent": long["bytes_sent_per_step"], "received": long["bytes_received_per_step"],
                "seconds": (long["seconds"] - short["seconds"]) / 20}


def add(figures, link, side, transfer, ours):
    begin, end, moved = transfer
    figures["bytes"] = ours
    figures["seconds"].append(end - begin)
    figures["share"].append(link.share(side, transfer))
    figures["overhead"].append(moved / ours)
