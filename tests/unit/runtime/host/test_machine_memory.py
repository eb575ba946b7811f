"""The memory that is left: of the machine, or of a control group with less."""

from __future__ import annotations

from pathlib import Path

from sqlstream.runtime.memory.managed_memory import MachineMemory, read_machine_memory

GB = 1 << 30
MEMINFO = (
    f"MemTotal: {64 * GB >> 10} kB\nMemFree: 12 kB\nMemAvailable: {9 * GB >> 10} kB\nHugePages_Total: 0\n"
)


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_without_control_groups_it_is_that_of_the_machine(tmp_path: Path) -> None:
    assert read_machine_memory(tree(tmp_path, {"proc/meminfo": MEMINFO})) == MachineMemory(9 * GB, 64 * GB)


def test_the_narrowest_group_above_the_process_counts(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/pods/one\n",
            "sys/fs/cgroup/pods/one/memory.max": "max\n",
            "sys/fs/cgroup/pods/one/memory.current": f"{5 * GB}\n",
            "sys/fs/cgroup/pods/one/memory.stat": "inactive_file 0\n",
            "sys/fs/cgroup/pods/memory.max": f"{8 * GB}\n",
            "sys/fs/cgroup/pods/memory.current": f"{7 * GB}\n",
            "sys/fs/cgroup/pods/memory.stat": f"anon 77\ninactive_file {2 * GB}\nactive_file {GB}\n",
        },
    )
    assert read_machine_memory(root) == MachineMemory(4 * GB, 8 * GB)


def test_groups_of_the_first_version_are_read_too(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/docker/3f\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GB}\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{2 * GB}\n",
            "sys/fs/cgroup/memory/memory.stat": f"cache 5\ntotal_inactive_file {GB}\n",
        },
    )
    assert read_machine_memory(root) == MachineMemory(GB, 2 * GB)


def test_a_group_without_a_limit_is_none(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "4:memory:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "5\n",
            "sys/fs/cgroup/memory/memory.stat": "\n",
        },
    )
    assert read_machine_memory(root) == MachineMemory(9 * GB, 64 * GB)


def test_a_system_that_does_not_say_has_no_figure(tmp_path: Path) -> None:
    assert read_machine_memory(tmp_path) is None
