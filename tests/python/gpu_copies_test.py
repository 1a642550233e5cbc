"""Memory that GPUs copy to and from is page-locked once and released once; a stand-in takes the place of CUDA's runtime."""

import gc
import mmap
import unittest
from unittest import mock

import python_case  # noqa: F401, which finds the package

from optional_packages import OptionalPackages

PACKAGES = OptionalPackages()
with PACKAGES:
    import torch

    from thinwire._torch_places import GpuCopies


class Runtime:
    def __init__(self, refused=0):
        self.locked, self.unlocked, self.refused = [], [], refused

    def cudaHostRegister(self, pointer, size, flags):  # noqa: N802, as CUDA calls it
        assert flags == 1
        if not self.refused:
            self.locked.append((pointer, size))
        return self.refused

    def cudaHostUnregister(self, pointer):  # noqa: N802
        self.unlocked.append(pointer)
        return 0


@PACKAGES.needed
class Copies(unittest.TestCase):
    GPUS = ["cuda:1", "cpu", "cuda:0", "cuda:1"]

    def setUp(self):
        self.memories = [mmap.mmap(-1, 8192), None, mmap.mmap(-1, 4096)]
        self.addresses = [torch.frombuffer(one, dtype=torch.uint8).data_ptr() for one in self.memories if one]

    def copies(self, runtime, devices):
        with mock.patch.object(torch.cuda, "cudart", return_value=runtime):
            return GpuCopies([torch.device(one) for one in devices], self.memories)

    def test_memory_is_locked_while_it_is_used(self):
        runtime = Runtime()
        copies = self.copies(runtime, self.GPUS)
        self.assertEqual(runtime.locked, list(zip(self.addresses, [8192, 4096])))
        self.assertEqual(runtime.unlocked, [])
        del copies
        gc.collect()
        self.assertEqual(sorted(runtime.unlocked), sorted(self.addresses))

    def test_all_devices_are_waited_for_once(self):
        copies = self.copies(Runtime(), self.GPUS)
        streams = {}
        with mock.patch.object(torch.cuda, "current_stream", lambda gpu: streams.setdefault(str(gpu), mock.Mock())):
            copies.wait()
        self.assertEqual(sorted(streams), ["cuda:0", "cuda:1"])
        for stream in streams.values():
            stream.synchronize.assert_called_once_with()

    def test_a_refusal_changes_nothing(self):
        runtime = Runtime(refused=1)
        with mock.patch.object(torch, "zeros", side_effect=RuntimeError("CUDA error: invalid argument")) as reported:
            copies = self.copies(runtime, self.GPUS)
        self.assertEqual(reported.call_count, 2)
        del copies
        gc.collect()
        self.assertEqual(runtime.unlocked, [])

    def test_without_a_gpu_nothing_is_locked(self):
        runtime = Runtime()
        self.copies(runtime, ["cpu"]).wait()
        self.assertEqual(runtime.locked, [])


if __name__ == "__main__":
    unittest.main()
