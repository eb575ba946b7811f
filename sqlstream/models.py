"""What the planner, a job and a user's Python know of models: the options of their providers, the reference that a call of
ML_PREDICT carries, and the class that a model in Python derives from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from sqlstream.function_ref import FunctionKind, FunctionMode, FunctionRef, InspectedFunction
from sqlstream.model_servers import OPENAI_REFUSED, OpenAiOptions, check_openai
from sqlstream.python_functions import DeclarationError, UserFunction
from sqlstream.schema import Schema
from sqlstream.spi.connector import OptionDescriptor, OptionType
from sqlstream.spi.table_options import descriptors_of
from sqlstream.triton_models import TRITON_REFUSED, TritonOptions, check_triton

if TYPE_CHECKING:
    import pyarrow as pa

MODEL_FILE = ":model:"
"""The names of the files of models that go with a job: this, and the SHA-256. No user can write such a name."""


class PredictFunction:
    """A model in Python: subclass it, and name the class in CREATE MODEL … WITH ('provider' = 'python', 'class' = 'module.A').

    The class is made without arguments, once in each subtask of a job.
    """

    def open(self, options: Mapping[str, str]) -> None:
        """Called once before the first rows, with the options of the model. `options["path"]`, when there is one, is where this
        host keeps the file of the model that goes with the job."""

    def predict(self, batch: pa.RecordBatch) -> Any:
        """The outputs for a batch of the INPUT columns: a record batch or a mapping with the OUTPUT columns by name, or a list of
        them in their order, each a `pyarrow.Array`, a numpy array or a list with a value for each row."""
        raise NotImplementedError

    def close(self) -> None:
        """Called once when the subtask ends, also after a failure."""


def declared_predict(cls: type[PredictFunction]) -> UserFunction:
    """What a class declares. DeclarationError for one without `predict`."""
    if cls.predict is PredictFunction.predict:
        raise DeclarationError(f"{cls.__name__} has no predict")
    comment = " ".join(inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].split())[:1000]
    return UserFunction(
        cls, InspectedFunction(FunctionKind.PREDICT, FunctionMode.ARROW, (), (), "", comment=comment)
    )


class ModelRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model as a call carries it. `version` is the SHA-256 of its file, which goes with the job: a file that changes later is
    none of it. `function` is the Python class of provider `python`."""

    path: str
    provider: str
    inputs: Schema
    outputs: Schema
    options: dict[str, str]
    version: str = ""
    function: FunctionRef | None = None

    def __hash__(self) -> int:
        # Options are a dict, and plans that hold models are found by hash.
        return hash((self.path, self.version))

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


class ModelProvider(msgspec.Struct, frozen=True):
    """What computes models, with the options that it has beside 'provider'.

    `refused` are options of Flink's that are not built, each with what to do instead. `check` is given INPUT, OUTPUT and options
    that are right by themselves, and raises UserError where they do not fit together. `asks_server`: rows wait for a server, in
    the state of the job."""

    identifier: str
    options: tuple[OptionDescriptor, ...]
    refused: Mapping[str, str] = {}
    check: Callable[[Schema, Schema, Mapping[str, str]], None] = lambda inputs, outputs, options: None
    asks_server: bool = False

    def parsed(self, options: Mapping[str, str], key: str) -> Any:
        """The value of an option that was checked, or its default."""
        found = next(option for option in self.options if option.key == key)
        text = options.get(key, found.default)
        return None if text is None else found.parse(text)


BATCH_SIZE = OptionDescriptor(
    "batch-size",
    OptionType.INTEGER,
    "The most rows that the model is given at once.",
    default="8192",
    minimum=1,
)

LINEAR, LOGISTIC, K_MEANS = "linear-regression", "logistic-regression", "k-means"
TRAINED = "trained"
"""The provider of models whose weights a job trains, which CREATE MODEL … AS starts."""
ALGORITHM, WEIGHTS_PATH, LABEL, MINI_BATCH_SIZE = "algorithm", "weights.path", "label", "mini-batch-size"

_LOGINS = {"s3": "s3.", "s3a": "s3.", "gs": "gs.", "abfs": "fs.azure.", "abfss": "fs.azure."}


def weights_options(
    path: str, config: Mapping[str, str], known: Iterable[OptionDescriptor]
) -> dict[str, str]:
    """The options of a file of weights: its path, and for one of another file system those settings that say who asks, as for
    checkpoints. `known` are the options of the connector that reads it."""
    scheme, elsewhere, _ = path.partition("://")
    if not elsewhere:
        return {"path": path}
    first = _LOGINS.get(scheme, "fs.")
    keys = [
        o.key
        for o in known
        if o.key.startswith(first) and o.key.startswith("fs.azure.") == (first == "fs.azure.")
    ]
    return {"path": path, **{key: config[key] for key in keys if config.get(key)}}


ALGORITHM_OPTIONS = {
    "label": (LINEAR, LOGISTIC),
    "learning-rate": (LINEAR, LOGISTIC),
    "learning-rate.decay": (LINEAR, LOGISTIC),
    "l2": (LINEAR, LOGISTIC),
    "standardize": (LINEAR, LOGISTIC),
    "clusters": (K_MEANS,),
    "seed": (K_MEANS,),
    "decay": (K_MEANS,),
}
"""The algorithms that an option of provider `trained` is of; one that is not here is of all."""

_TRAINED = ModelProvider(
    TRAINED,
    (
        OptionDescriptor(
            ALGORITHM,
            OptionType.ENUM,
            "What is trained.",
            is_required=True,
            choices=(LINEAR, LOGISTIC, K_MEANS),
        ),
        OptionDescriptor(
            WEIGHTS_PATH,
            OptionType.STRING,
            "The file that the training publishes weights to, and that predictions read.",
            is_required=True,
        ),
        OptionDescriptor(LABEL, OptionType.STRING, "The column that is learned.", default="label"),
        OptionDescriptor(
            MINI_BATCH_SIZE,
            OptionType.INTEGER,
            "The number of rows between two changes of the weights.",
            default="100",
            minimum=1,
        ),
        OptionDescriptor(
            "learning-rate",
            OptionType.DOUBLE,
            "How far a mini-batch moves the weights.",
            default="0.1",
            minimum=0,
        ),
        OptionDescriptor(
            "learning-rate.decay",
            OptionType.DOUBLE,
            "The rate is divided by one and this for each mini-batch before.",
            default="0",
            minimum=0,
        ),
        OptionDescriptor(
            "l2", OptionType.DOUBLE, "The weight of the squares of the weights.", default="0", minimum=0
        ),
        OptionDescriptor(
            "standardize",
            OptionType.BOOLEAN,
            "Whether steps are taken with features of mean 0 and deviation 1, by the rows so far.",
            default="true",
        ),
        OptionDescriptor("clusters", OptionType.INTEGER, "The number of clusters.", default="8", minimum=1),
        OptionDescriptor(
            "seed", OptionType.LONG, "Of the choice of the first centres.", default="0", minimum=0
        ),
        OptionDescriptor(
            "decay",
            OptionType.DOUBLE,
            "What earlier rows count for at each mini-batch: 1 as much as new ones, 0 nothing.",
            default="1",
            minimum=0,
        ),
        OptionDescriptor(
            "refresh-interval",
            OptionType.DURATION,
            "How old the weights of a prediction may be, beside those that are published meanwhile.",
            default="1 s",
            minimum=0,
        ),
        BATCH_SIZE,
    ),
)

PROVIDERS = {
    provider.identifier: provider
    for provider in (
        _TRAINED,
        ModelProvider(
            "onnx",
            (
                OptionDescriptor(
                    "path", OptionType.STRING, "The .onnx file, which goes with each job.", is_required=True
                ),
                BATCH_SIZE,
            ),
        ),
        ModelProvider(
            "python",
            (
                OptionDescriptor(
                    "class",
                    OptionType.STRING,
                    "The class, as module.Class: it derives from sqlstream.PredictFunction.",
                    is_required=True,
                ),
                OptionDescriptor(
                    "files",
                    OptionType.STRING,
                    "The .py and .zip files or directories with its modules, with commas between: they go with each job.",
                ),
                OptionDescriptor(
                    "path", OptionType.STRING, "A file that the class opens, which goes with each job."
                ),
                OptionDescriptor("option.*", OptionType.STRING, "What the class is told besides."),
                BATCH_SIZE,
            ),
        ),
        ModelProvider(
            "openai", descriptors_of(OpenAiOptions), OPENAI_REFUSED, check_openai, asks_server=True
        ),
        ModelProvider(
            "triton", descriptors_of(TritonOptions), TRITON_REFUSED, check_triton, asks_server=True
        ),
    )
}
"""By the value of the option 'provider'."""

UNBUILT_PROVIDERS = frozenset(
    {
        "azureml",
        "azureopenai",
        "bedrock",
        "confluent",
        "googleai",
        "sagemaker",
        "vertexai",
    }
)
"""Those that Flink or its distributions have beside these."""
