"""What __init__.py loads when it is used, for editors and type checkers: imports there would load all of it."""

from sqlstream.changelog import ChangelogMode as ChangelogMode
from sqlstream.changelog import RowKind as RowKind
from sqlstream.client.dbapi import *  # noqa: F403
from sqlstream.client.dbapi import apilevel as apilevel
from sqlstream.client.dbapi import paramstyle as paramstyle
from sqlstream.client.dbapi import threadsafety as threadsafety
from sqlstream.client.dbapi.tables import *  # noqa: F403
from sqlstream.models import PredictFunction as PredictFunction
from sqlstream.process_functions import OPTIONAL_PARTITION_BY as OPTIONAL_PARTITION_BY
from sqlstream.process_functions import PASS_COLUMNS_THROUGH as PASS_COLUMNS_THROUGH
from sqlstream.process_functions import REQUIRE_ON_TIME as REQUIRE_ON_TIME
from sqlstream.process_functions import ROW_SEMANTIC_TABLE as ROW_SEMANTIC_TABLE
from sqlstream.process_functions import SET_SEMANTIC_TABLE as SET_SEMANTIC_TABLE
from sqlstream.process_functions import SUPPORT_UPDATES as SUPPORT_UPDATES
from sqlstream.process_functions import Change as Change
from sqlstream.process_functions import Deletion as Deletion
from sqlstream.process_functions import ListState as ListState
from sqlstream.process_functions import MapState as MapState
from sqlstream.process_functions import ProcessTableFunction as ProcessTableFunction
from sqlstream.process_functions import ScalarArgument as ScalarArgument
from sqlstream.process_functions import SideOutput as SideOutput
from sqlstream.process_functions import TableArgument as TableArgument
from sqlstream.process_functions import ValueState as ValueState
from sqlstream.python_functions import AggregateFunction as AggregateFunction
from sqlstream.python_functions import udaf as udaf
from sqlstream.python_functions import udf as udf
from sqlstream.python_functions import udtf as udtf

__version__: str
