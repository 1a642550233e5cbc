"""The runs of outer_*.safetensors: tensors, gradients and options."""

from inputs import F32, hashed
from outer_reference import Layout, Options, Run, Tensor

PARAM_SCALE, PULL = 2.0**-4, 0.5

# Five blocks: in two fragments of three layers or three of two, layers are dealt out in turn.
TENSORS = [
    Tensor("model.embed_tokens.weight", (19, 17), "embedding", -1, 2.0**-3),     # 323: one block of 256 and a rest
    Tensor("model.layers.0.input_layernorm.weight", (17,), "norm", 0, 1.0),
    Tensor("model.layers.0.self_attn.q_proj.weight", (11, 17), "matrix", 0, 2.0**-5),
    Tensor("model.layers.1.mlp.down_proj.weight", (7, 11), "matrix", 1, 2.0**-6),
    Tensor("model.layers.2.mlp.up_proj.weight", (7, 17), "matrix", 2, 2.0**-4),
    Tensor("model.layers.2.post_attention_layernorm.weight", (13,), "norm", 2, 2.0**-2),
    Tensor("model.layers.3.self_attn.o_proj.weight", (13, 5), "matrix", 3, 2.0**-5),
    Tensor("model.layers.4.mlp.gate_proj.weight", (3, 29), "matrix", 4, 2.0**-4),
    Tensor("model.norm.weight", (17,), "norm", -1, 2.0**-1),
    Tensor("lm_head.weight", (7, 13), "head", -1, 2.0**-3),
]
LAYOUT = Layout(TENSORS)
# {first step: weights}: workers of changing speed; workers that leave (weight 0) and join, between the rounds of H = 4
# and of H = 6 steps.
SPEEDS = {0: (3 / 8, 3 / 8, 2 / 8), 8: (4 / 8, 1 / 8, 3 / 8), 16: (1 / 8, 5 / 8, 2 / 8)}
COMING = {0: (4 / 8, 4 / 8, 0), 4: (4 / 8, 0, 4 / 8), 8: (5 / 8, 0, 3 / 8), 12: (0, 3 / 8, 5 / 8), 16: (3 / 8, 3 / 8, 2 / 8)}
BRIEFLY = {0: (3 / 8, 3 / 8, 2 / 8), 8: (5 / 8, 0, 3 / 8), 12: (3 / 8, 3 / 8, 2 / 8), 16: (4 / 8, 4 / 8, 0),
           20: (0, 5 / 8, 3 / 8), 24: (3 / 8, 3 / 8, 2 / 8)}
SIX = {0: (4 / 8, 4 / 8, 0), 6: (3 / 8, 3 / 8, 2 / 8), 12: (5 / 8, 0, 3 / 8), 18: (2 / 8, 4 / 8, 2 / 8)}
EQUAL, UNEQUAL, FOUR = (), (3 / 8, 3 / 8, 2 / 8), (2 / 8, 1 / 8, 3 / 8, 2 / 8)


def diloco(steps=20, weights=UNEQUAL, mid=10, **section):
    return "diloco", steps, weights, mid, {"sync_every": 4, "wire": "fp32", "overlap": "none"} | section


PIECES = {"sync_every": 6, "fragment_layers": 2, "wire": "fp32", "overlap": "none"}


def streaming(steps=27, mid=17, weights=UNEQUAL, **section):
    return "streaming", steps, weights, mid, PIECES | section


IN_WEIGHTS = {"error_feedback": True, "error_in": "weights"}
SLICES = {"fragment_layers": 3, "slices": 5, "overlap": "none"}

# variant: (method, steps, weights of the workers (empty: 3 equal ones), mid, options)
VARIANTS = {
    "local_sgd": ("local_sgd", 20, EQUAL, 10, {"sync_every": 4, "wire": "fp32"}),
    "average": ("local_sgd", 20, UNEQUAL, 10, {"sync_every": 4, "wire": "fp32", "outer": "average"}),
    "sgd": diloco(outer="sgd", outer_lr=0.8),
    "momentum": diloco(outer="momentum", outer_lr=0.5, outer_momentum=0.8),
    "diloco": diloco(),
    "bf16": diloco(wire="bf16"),
    "fp8": diloco(wire="fp8"),
    "fp4": diloco(wire="fp4"),
    "int2": diloco(wire="int2"),
    "fp4_feedback": diloco(wire="fp4", error_feedback=True),
    "int2_feedback": diloco(wire="int2", error_feedback=True),
    "int1": diloco(wire="int1"),
    "int1_feedback": diloco(wire="int1", error_feedback=True),
    "int1_weights": diloco(wire="int1", outer="sgd", outer_lr=1.4, **IN_WEIGHTS),
    "int2_weights": diloco(mid=14, wire="int2", **IN_WEIGHTS),
    "slices": streaming(**SLICES),
    "slices_inner": streaming(wire="fp4", **SLICES | {"overlap": "inner", "slices": 3}),
    "slices_weights": streaming(wire="int1", outer="sgd", outer_lr=1.4, **SLICES, **IN_WEIGHTS),
    "members_weights": streaming(weights=SIX, mid=11, wire="int1", **SLICES, **IN_WEIGHTS),
    "two_stage_weights": diloco(weights=FOUR, clusters=((0, 1), (2, 3)), wire="int1", **IN_WEIGHTS),
    "int1_summed": diloco(wire="int1", sum_wire="fp8", outer="sgd", outer_lr=1.4, **IN_WEIGHTS),
    "slices_summed": streaming(weights=SIX, mid=11, wire="int1", sum_wire="fp4", error_feedback=True, **SLICES),
    "eager_summed": diloco(mid=14, overlap="eager", wire="int2", sum_wire="bf16"),
    "inner1": diloco(overlap="inner", overlap_steps=1, mix=0.5),
    "inner2": diloco(overlap="inner", overlap_steps=2, mix=0.0),
    "inner2_mix": diloco(steps=21, overlap="inner", overlap_steps=2, mix=0.25, wire="fp4"),
    "partial": diloco(steps=18),
    "delayed": diloco(steps=24, overlap="delayed"),
    "eager1": diloco(overlap="eager"),
    "eager2": diloco(steps=24, mid=18, overlap="eager", depth=2),
    "eager_feedback": diloco(mid=14, overlap="eager", wire="fp4", error_feedback=True),
    "eager_partial": diloco(steps=23, mid=22, overlap="eager", depth=2, wire="int2"),
    "delayed_after": diloco(steps=24, mid=14, overlap="delayed", overlap_after=3),
    "eager_after": diloco(steps=28, mid=14, overlap="eager", depth=2, overlap_after=3),
    "eager_feedback_after": diloco(steps=22, mid=14, overlap="eager", wire="fp4", error_feedback=True, overlap_after=2),
    "streaming": streaming(),
    "streaming_uneven": streaming(steps=30, sync_every=7, wire="fp4", error_feedback=True),
    "streaming_inner": streaming(overlap="inner", wire="fp4"),
    "streaming_delayed": streaming(overlap="delayed"),
    "streaming_eager": streaming(overlap="eager"),
    "streaming_inner_after": streaming(overlap="inner", overlap_after=2),
    "streaming_eager_after": streaming(overlap="eager", overlap_after=2),
    "members_eager_after": diloco(steps=32, mid=30, weights=BRIEFLY, overlap="eager", depth=2, overlap_after=3),
    "streaming_eager_feedback": streaming(overlap="eager", depth=2, wire="fp4", error_feedback=True),
    "sparseloco": ("sparseloco", 20, UNEQUAL, 10, {"sync_every": 4, "chunk": 32, "k": 4, "outer": "sgd", "outer_lr": 1.0}),
    "sparseloco_rate": ("sparseloco", 20, EQUAL, 10, {"sync_every": 4, "chunk": 4096, "k": 512, "outer": "sgd", "outer_lr": 0.8,
                                              "decay": 0.9}),
    "sparseloco_senders": ("sparseloco", 20, UNEQUAL, 10, {"sync_every": 4, "chunk": 32, "k": 4, "outer": "sgd",
                                                   "outer_lr": 1.0, "aggregate": "mean_of_senders"}),
    "sparseloco_summed": ("sparseloco", 20, UNEQUAL, 10, {"sync_every": 4, "chunk": 32, "k": 4, "outer": "sgd",
                                                  "outer_lr": 1.0, "aggregate": "mean_of_senders", "sum_wire": "2bit",
                                                  "sum_k": 6}),
    "sparseloco_summed_all": ("sparseloco", 20, UNEQUAL, 10, {"sync_every": 4, "chunk": 32, "k": 4, "outer": "nesterov",
                                                      "outer_lr": 0.7, "sum_wire": "int8"}),
    "clip": diloco(clip=3.2),
    "streaming_clip": streaming(wire="int2", clip=3.2),
    "muon": diloco(optimizer="muon"),
    "muon_int2": diloco(steps=24, optimizer="muon", wire="int2", error_feedback=True),
    "two_stage": diloco(weights=FOUR, clusters=((0, 1), (2, 3))),
    "two_stage_distro": diloco(weights=FOUR, clusters=((0, 1), (2, 3)), within="distro", outer_lr=0.5),
    "two_stage_eager": diloco(weights=FOUR, clusters=((0, 1), (2, 3)), clip=2.4, overlap="eager", wire="fp4"),
    "two_stage_sparseloco": ("sparseloco", 20, FOUR, 10, {"sync_every": 4, "chunk": 32, "k": 4, "outer": "sgd", "outer_lr": 1.0,
                                                   "clusters": ((0, 1), (2, 3))}),
    "sparseloco_nesterov": ("sparseloco", 20, UNEQUAL, 10, {"sync_every": 4, "chunk": 32, "k": 4, "outer": "nesterov",
                                                    "outer_lr": 0.7}),
    "two_stage_streaming": streaming(weights=FOUR, clusters=((0, 1), (2, 3)), overlap="inner"),
    "streaming_muon": streaming(optimizer="muon", overlap="eager", depth=2),
    "eager_sgd": diloco(overlap="eager", outer="sgd", outer_lr=0.6),
    "delayed_momentum": diloco(steps=24, overlap="delayed", outer="momentum", outer_lr=0.3),
    "speeds": diloco(weights=SPEEDS),
    "speeds_eager": diloco(steps=24, weights=SPEEDS, overlap="eager"),
    "members": diloco(weights=COMING),
    "members_inner": diloco(weights=COMING, overlap="inner", overlap_steps=2),
    "members_eager": diloco(steps=32, mid=30, weights=BRIEFLY, overlap="eager", depth=2),
    "members_muon": diloco(weights=COMING, optimizer="muon"),
    "members_streaming": streaming(weights=SIX, mid=11),
    "members_streaming_eager": streaming(weights=SIX, mid=11, overlap="eager"),
    "members_sparseloco": ("sparseloco", 20, COMING, 10, {"sync_every": 4, "chunk": 32, "k": 4, "outer": "sgd", "outer_lr": 1.0}),
    "norm_clipping": streaming(rule="norm_clipping"),
    "trimmed_mean": diloco(weights=FOUR, rule="trimmed_mean", trim=0.2),
    "majority_vote": diloco(overlap="eager", rule="majority_vote", outer_lr=0.3),
    "sparseloco_trimmed": ("sparseloco", 20, FOUR, 10, {"sync_every": 4, "chunk": 32, "k": 4, "outer": "sgd", "outer_lr": 1.0,
                                                     "rule": "trimmed_mean"}),
}
# Options that are no fields of the method's own table.
WITHIN = ("optimizer", "clip", "clusters", "within", "rule", "trim")


def new_run(settings, seed, dtype=F32):
    _, steps, weights, _, section = settings
    start = LAYOUT.join({t.name: hashed(seed, 63, 0, i, t.shape) * F32(PARAM_SCALE) for i, t in enumerate(TENSORS)})

    def gradient(step, worker, theta):
        g = {t.name: hashed(seed, step, worker, i, t.shape) * F32(t.grad_scale) for i, t in enumerate(TENSORS)}
        return LAYOUT.join(g, dtype) + dtype(PULL) * theta
    return Run(LAYOUT, start, Options(**section), weights or [1 / 3] * 3, steps, gradient, dtype)
