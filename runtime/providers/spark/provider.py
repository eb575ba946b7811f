"""TaskManagers in the executors of a Spark cluster."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import threading
from collections.abc import Mapping

import msgspec
import psutil

from sqlstream import config as options
from sqlstream.errors import ErrorInfo, ExternalError, FailureReason, UserError, error_info
from sqlstream.runtime.batch.spark.connect.address import REMOTE, ConnectAddress, connect_address
from sqlstream.runtime.batch.spark.settings import (
    ENCRYPTED,
    is_of_this_machine,
    launch_keys,
    shown_settings,
    spark_keys,
)
from sqlstream.runtime.host import process
from sqlstream.runtime.providers.child_output import LINE_BYTES_MAX, ChildOutput, PassOn
from sqlstream.runtime.providers.provider import MakeProvider, OnExit
from sqlstream.runtime.providers.spark.messages import (
    DriverFailed,
    DriverStarted,
    EndTaskManager,
    StartDriver,
    StartTaskManager,
    TaskManagerEnded,
    ToDriver,
    decode_from_driver,
    encode_line,
)
from sqlstream.runtime.taskmanager.task_manager_options import TaskManagerOptions
from sqlstream.spark import MASTER, SECRET

logger = logging.getLogger(__name__)

JVM_TIMEOUT_S = 10.0
"""How long the JVM of a driver that was killed may take to end."""

STOP_TIMEOUT_S = 15.0
"""How long Spark's driver may take to end TaskManagers and give back the executors."""


def spark_provider(config: Mapping[str, str]) -> MakeProvider:
    """UserError for settings of Spark that cannot be obeyed."""
    settings = driver_settings(config)

    def make(options: TaskManagerOptions, on_exit: OnExit, pass_on: PassOn) -> SparkProvider:
        return SparkProvider(settings, options, on_exit, pass_on)

    return make


class _Driver:
    """A driver's process and the TaskManagers that it is to run. State: `resource_ids` until each has ended; `failure` once the
    driver has said why it ends; `has_run` once one of its TaskManagers has registered."""

    def __init__(self, child: subprocess.Popen[bytes], pass_on: PassOn) -> None:
        self.process = child
        self.output = ChildOutput(pass_on)
        self.resource_ids: set[str] = set()
        self.failure: ErrorInfo | None = None
        self.has_run = False
        self._jvm: psutil.Process | None = None

    def tell(self, line: ToDriver) -> None:
        """A driver that has died is noticed by who reads its output."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.process.stdin.write(encode_line(line))
            self.process.stdin.flush()

    def note_jvm(self, process_id: int) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            self._jvm = psutil.Process(process_id) if process_id else None

    def end_jvm(self) -> None:
        """The driver is dead. Its JVM sees its input end, and says goodbye to the cluster; one that hangs there would keep its
        executors."""
        with contextlib.suppress(psutil.NoSuchProcess):
            if self._jvm is None or _has_ended(self._jvm, JVM_TIMEOUT_S):
                return
            logger.warning(
                "Spark's JVM (process %d) did not end with its driver, and is killed", self._jvm.pid
            )
            self._jvm.kill()

    def hang_up(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


class SparkProvider:
    """Asks a Spark cluster for a long-running task for each TaskManager that it is asked for. Thread-safe. Implements
    `TaskManagerProvider`.

    Spark's driver is a child process: it starts with the first request, and again with the next one after it has died, and all
    its TaskManagers end with it. State: the driver, and which TaskManagers it runs."""

    def __init__(
        self, settings: dict[str, str], options: TaskManagerOptions, on_exit: OnExit, pass_on: PassOn
    ) -> None:
        self._settings = settings
        self._options = options
        self._on_exit = on_exit
        self._pass_on = pass_on
        self._driver: _Driver | None = None
        self._is_stopping = False
        self._lock = threading.Lock()

    @property
    def process_ids(self) -> tuple[int, ...]:
        with self._lock:
            return (self._driver.process.pid,) if self._driver is not None else ()

    def request(self, resource_id: str) -> None:
        """ExternalError when the system refuses another process."""
        with self._lock:
            if self._is_stopping:
                return
            if self._driver is None:
                self._driver = self._start()
            self._driver.resource_ids.add(resource_id)
            options = msgspec.structs.replace(self._options, resource_id=resource_id)
            self._driver.tell(StartTaskManager(options))

    def release(self, resource_id: str, is_lost: bool) -> None:
        """The process that waits for the TaskManager in Spark is killed, and it ends itself: it has no other way to end."""
        with self._lock:
            driver = self._driver
            if driver is not None and resource_id in driver.resource_ids:
                driver.tell(EndTaskManager(resource_id, is_lost))

    def registered(self, resource_id: str) -> None:
        """What TaskManagers print is in the logs of their executors."""
        with self._lock:
            if self._driver is not None and resource_id in self._driver.resource_ids:
                self._driver.has_run = True

    def stop(self) -> None:
        with self._lock:
            self._is_stopping = True
            driver = self._driver
            if driver is None:
                return
            driver.hang_up()
        try:
            driver.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # Its JVM, the executors and the TaskManagers each end when the one before does.
            driver.process.kill()
            driver.process.wait()

    def _start(self) -> _Driver:
        logger.info("starting Spark's driver: %s", shown_settings(self._settings))
        try:
            child = process.start_python_module("sqlstream.runtime.providers.spark.driver", [], {})
        except OSError as error:
            raise ExternalError(
                "SS6006",
                f"Spark's driver could not be started: {error.strerror}",
                hint="end other processes, or raise the limits of this user",
            ) from error
        driver = _Driver(child, self._pass_on)
        driver.tell(StartDriver(self._settings))
        threading.Thread(target=self._watch, args=(driver,), name="watch-spark-driver", daemon=True).start()
        return driver

    def _watch(self, driver: _Driver) -> None:
        assert driver.process.stdout is not None
        # A message is as long as the detail of an error; longer lines are somebody's output.
        while line := driver.process.stdout.readline(LINE_BYTES_MAX):
            match decode_from_driver(line):
                case DriverStarted(application_id, jvm_process_id):
                    driver.output.release()
                    driver.note_jvm(jvm_process_id)
                    logger.info("Spark runs TaskManagers as %s", application_id)
                case TaskManagerEnded(resource_id, error):
                    with self._lock:
                        driver.resource_ids.discard(resource_id)
                    self._report(resource_id, error)
                case DriverFailed(error):
                    driver.failure = error
                case None:
                    driver.output.add(line)
        code = driver.process.wait()
        with self._lock:
            if self._driver is driver:
                self._driver = None
            left, driver.resource_ids = sorted(driver.resource_ids), set()
        cause = driver.failure or describe_driver(driver.process.pid, code, driver.output.last_words())
        if not driver.has_run:
            # Another driver would fare no better.
            cause = msgspec.structs.replace(cause, reason=FailureReason.NO_RESOURCES)
        for resource_id in left:
            self._report(resource_id, cause)
        driver.end_jvm()

    def _report(self, resource_id: str, error: ErrorInfo) -> None:
        if not self._is_stopping:
            self._on_exit(resource_id, error)


def _has_ended(jvm: psutil.Process, timeout_s: float) -> bool:
    try:
        jvm.wait(timeout_s)
    except psutil.TimeoutExpired:
        # Whoever has inherited it may not have asked for its exit code.
        return bool(jvm.status() == psutil.STATUS_ZOMBIE)
    return True


def describe_driver(process_id: int, code: int, last_words: str) -> ErrorInfo:
    """The cause of a job's failure when Spark's driver has ended without a word of its own."""
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return error_info(
        "SS6075",
        f"Spark's driver (process {process_id}) {how}, and all TaskManagers with it",
        detail=f"its last lines are\n{last_words}" if last_words else "",
        hint="run the statement again",
    )


# The settings of the Spark application that runs TaskManagers: ours, and over them those of the user.


_SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

_DEFAULTS = {
    "spark.app.name": "sqlstream TaskManagers",
    "spark.driver.memory": "512m",
    # The executor's JVM only starts a process: what it is given beyond that is for the TaskManager.
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "2g",
    # One TaskManager each, so that a lost executor takes one of them along.
    "spark.executor.cores": "1",
    # Executors come as TaskManagers wait for them, and go when they have none.
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.executorIdleTimeout": "10s",
    # JVMs that compute nothing: a smaller compiler and collector halve the processor time of their start.
    "spark.driver.extraJavaOptions": _SMALL_JVM,
    "spark.executor.extraJavaOptions": _SMALL_JVM,
    # The process that waits for a TaskManager has nothing to tidy up.
    "spark.python.task.killTimeout": "100ms",
}

_FIXED = {
    # Whether a lost TaskManager is replaced, and under which id, is decided by the JobManager.
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
}

JOB_MANAGER = "jobmanager.rpc.address"

_FIXED_NUMBER = "spark.executor.instances"
_DYNAMIC = "spark.dynamicAllocation.enabled"


def driver_settings(config: Mapping[str, str]) -> dict[str, str]:
    """The `spark.*` settings of a cluster with `execution.target` = spark. UserError SS4052 and SS4053 as for batch, SS4072 for
    settings that are missing or wrong for TaskManagers."""
    given = launch_keys(spark_keys(config))
    address = connect_address(given)
    if address is not None:
        _check_connect(address, options.get(config, JOB_MANAGER))
        return given
    if MASTER not in given:
        raise UserError(
            "SS4072",
            f'option "{MASTER}" is not set, but jobs go to a Spark cluster',
            hint=f"give -D {MASTER}=spark://HOST:PORT, yarn or k8s://…, or -D {REMOTE}=sc://HOST:PORT",
        )
    for key, value in _FIXED.items():
        if given.get(key, value) != value:
            raise UserError(
                "SS4072",
                f'option "{key}" cannot be "{given[key]}": tasks that run TaskManagers need "{value}"',
                hint="leave it out",
            )
    settings = {**_DEFAULTS, **_FIXED}
    if given.get(_FIXED_NUMBER) is not None and _DYNAMIC not in given:
        settings[_DYNAMIC] = "false"
    if not is_of_this_machine(given[MASTER]):
        settings |= _of_several_hosts(given, options.get(config, JOB_MANAGER))
    elif SECRET in given:
        settings |= ENCRYPTED
    return {**settings, **given}


def _check_connect(address: ConnectAddress, job_manager: str) -> None:
    """What a server starts with is its own; the way there is ours."""
    if address.is_loopback:
        return
    _check_job_manager(job_manager)
    if not address.is_encrypted:
        raise UserError(
            "SS4072",
            f'the secret of the TaskManagers would go to "{address}" without encryption',
            hint="add ;use_ssl=true to the address",
        )


def _check_job_manager(address: str) -> None:
    if not address:
        raise UserError(
            "SS4072",
            f'option "{JOB_MANAGER}" is not set, but the Spark cluster has other machines',
            hint="give the name under which they reach this one, and certificates (security.ssl.internal.*)",
        )


def _of_several_hosts(given: Mapping[str, str], job_manager: str) -> dict[str, str]:
    _check_job_manager(job_manager)
    for key, value in ENCRYPTED.items():
        if given.get(key, value).lower() != value:
            raise UserError(
                "SS4072",
                f'option "{key}" cannot be "{given[key]}": the secret of the TaskManagers goes through Spark\'s connections',
                hint="leave it out",
            )
    if given[MASTER].startswith("spark://") and SECRET not in given:
        raise UserError(
            "SS4072",
            'option "spark.authenticate.secret" is not set: the master and the workers of a standalone cluster must have one',
            hint="start them with spark.authenticate = true and a secret, and give it in sqlstream.yaml",
        )
    return {**ENCRYPTED, "spark.driver.host": job_manager}
