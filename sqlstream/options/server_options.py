"""The settings of `sqlstream server`: where it listens, what it keeps, whom it lets in, and its limits."""

from __future__ import annotations

from sqlstream.config_option import ConfigOption, ConfigType, Scope

_B, _I, _D, _M, _S, _E = (
    ConfigType.BOOLEAN, ConfigType.INTEGER, ConfigType.DURATION, ConfigType.MEMORY_SIZE, ConfigType.STRING, ConfigType.ENUM,
)  # fmt: skip
_SERVER = Scope.SERVER

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_ENDPOINTS = (
    ConfigOption("sql-gateway.endpoint.rest.address", _S, "localhost",
                 "The name under which clients reach the gateway; without tokens, requests for another are refused.",
                 scope=_SERVER),
    ConfigOption("sql-gateway.endpoint.rest.bind-address", _S, "127.0.0.1",
                 "The address that the gateway listens on; beyond loopback a token is required.", scope=_SERVER),
    ConfigOption("sql-gateway.endpoint.rest.port", _I, "8083", "The gateway's port; 0 takes a free one.",
                 minimum=0, maximum=65535, scope=_SERVER),
    ConfigOption("sql-gateway.endpoint.rest.bind-port", _S, "",
                 "Ports to try for the gateway instead of its port, such as 50100-50200 or 50100,50101.", scope=_SERVER),
    ConfigOption("rest.address", _S, "localhost",
                 "The name under which clients reach the JobManager's REST; without tokens, requests for another are refused.",
                 scope=_SERVER, deprecated=("jobmanager.web.address",)),
    ConfigOption("rest.bind-address", _S, "127.0.0.1",
                 "The address that the JobManager's REST listens on; beyond loopback a token is required.", scope=_SERVER),
    ConfigOption("rest.port", _I, "8081", "The port of the JobManager's REST; the gateway's port puts both on one.",
                 minimum=0, maximum=65535, scope=_SERVER, deprecated=("web.port", "jobmanager.web.port")),
    ConfigOption("rest.bind-port", _S, "", "Ports to try for the JobManager's REST instead of its port.", scope=_SERVER),
)  # fmt: skip

_LEADERS = (
    ConfigOption("high-availability.type", _E, "NONE",
                 "Whether several servers share high-availability.storageDir, of which one leads and the others wait.",
                 choices=("NONE", "filesystem"), refused=("ZOOKEEPER", "kubernetes"), scope=_SERVER,
                 deprecated=("high-availability", "high-availability.mode")),
    ConfigOption("high-availability.storageDir", _S, "",
                 "The directory that all servers reach, with jobs, catalog, tokens, the cluster's authority and checkpoints.",
                 scope=_SERVER),
    ConfigOption("high-availability.cluster-id", _S, "default", "The folder of these servers below that directory.",
                 scope=_SERVER, deprecated=("high-availability.zookeeper.path.namespace",)),
    ConfigOption("high-availability.lease-duration", _D, "5 s",
                 "How long a server that leads may say nothing before another one does.", minimum=500, scope=_SERVER),
)  # fmt: skip

_FLAME_GRAPHS = (
    ConfigOption("rest.flamegraph.enabled", _B, "true",
                 "Sample the stacks of tasks when somebody asks for a flame graph; nothing is sampled else.", scope=_SERVER),
    ConfigOption("rest.flamegraph.num-samples", _I, "100", "How many samples a flame graph is made of.",
                 minimum=1, maximum=1000, scope=_SERVER),
    ConfigOption("rest.flamegraph.delay-between-samples", _D, "50 ms", "The time from one sample to the next.",
                 minimum=1, maximum=1000, scope=_SERVER),
    ConfigOption("rest.flamegraph.stack-depth", _I, "100", "The most calls of a stack, from the innermost on.",
                 minimum=1, maximum=1000, scope=_SERVER),
    ConfigOption("rest.flamegraph.refresh-interval", _D, "1 min",
                 "Samples that are older are taken anew when somebody asks for them.", minimum=0, scope=_SERVER),
    ConfigOption("rest.flamegraph.cleanup-interval", _D, "10 min", "Samples that are older are not shown.",
                 minimum=0, scope=_SERVER),
)  # fmt: skip

_LIMITS = (
    ConfigOption("rest.server.max-content-length", _I, "104857600", "The largest body of a request, in bytes.",
                 minimum=1024, maximum=2**31 - 1, scope=_SERVER),
    ConfigOption("sqlstream.server.bodies.max-size", _M, "256 mb",
                 "What the bodies of all requests under way may take together, half of it those of one user.",
                 minimum=1024, scope=_SERVER),
    ConfigOption("sqlstream.server.connections.max-num", _I, "1000", "The most connections to all ports.",
                 minimum=2, maximum=100_000, scope=_SERVER),
    ConfigOption("sqlstream.server.connections.per-address.max-num", _I, "100",
                 "The most connections of one address; raise it when a proxy stands before the server.",
                 minimum=1, maximum=100_000, scope=_SERVER),
    ConfigOption("sqlstream.server.connections.reserved", _I, "200",
                 "How many of the connections are kept for those whose request was let in.",
                 minimum=0, maximum=100_000, scope=_SERVER),
    ConfigOption("sqlstream.server.connections.request-timeout", _D, "10 s",
                 "A connection without a request, or whose request's head has not come, is closed after this long.",
                 minimum=1, scope=_SERVER),
    ConfigOption("sqlstream.server.requests.per-user.max-num", _I, "200",
                 "The most requests of one token under way, streams of results among them.",
                 minimum=1, maximum=100_000, scope=_SERVER),
    ConfigOption("sql-gateway.session.idle-timeout", _D, "10 min",
                 "A session without a request for this long is closed; 0 keeps it.", minimum=0, scope=_SERVER),
    ConfigOption("sql-gateway.session.check-interval", _D, "1 min",
                 "How often idle sessions are looked for; 0 never closes one.", minimum=0, scope=_SERVER),
    ConfigOption("sql-gateway.session.max-num", _I, "1000000", "The most sessions that are open at once.",
                 minimum=1, scope=_SERVER),
    ConfigOption("sql-gateway.worker.threads.max", _I, "500", "The most statements that run at once, of all sessions.",
                 minimum=1, maximum=10_000, scope=_SERVER),
    ConfigOption("sqlstream.gateway.statement.max-length", _M, "1 mb", "The longest statement.", minimum=1, scope=_SERVER),
    ConfigOption("sqlstream.gateway.planning.per-user.max-num", _I, "1",
                 "How many statements of one token that take long to plan are planned at once; without tokens, of one session.",
                 minimum=1, maximum=1000, scope=_SERVER),
    ConfigOption("sqlstream.gateway.planning.cpu-time.max", _D, "5 min", "The CPU time that planning one statement may take.",
                 minimum=100, scope=_SERVER),
    ConfigOption("sqlstream.gateway.operations.max-num", _I, "1000", "The most operations of one session that are not closed.",
                 minimum=1, scope=_SERVER),
    ConfigOption("sqlstream.gateway.operations.max-size", _M, "256 mb",
                 "The most that statements and unread rows of one session may take.", minimum=1024 * 1024, scope=_SERVER),
    ConfigOption("sqlstream.gateway.memory.per-user.max-size", _M, "1 gb",
                 "The most that the sessions of one token may take: statements, unread rows, settings, temporary objects and the "
                 "statements of their last jobs; without tokens, one session.", minimum=1024 * 1024, scope=_SERVER),
    ConfigOption("sqlstream.gateway.session.properties.max-size", _M, "256 kb",
                 "The name and properties that a session is opened with, each property with 100 bytes more.",
                 minimum=1024, scope=_SERVER),
    ConfigOption("sqlstream.server.plan.max-size", _M, "16 mb", "The largest plan of a job.", minimum=65536, scope=_SERVER),
    ConfigOption("sqlstream.server.plans.per-user.max-size", _M, "128 mb",
                 "The most that the plans of one token's jobs which wait or run may take; without tokens, of one session's.",
                 minimum=65536, scope=_SERVER),
)  # fmt: skip

_SECURITY = (
    ConfigOption("sqlstream.server.authentication", _E, "AUTO",
                 "Who needs a token: AUTO asks for one beyond loopback, ALWAYS on loopback too.",
                 choices=("AUTO", "ALWAYS"), scope=_SERVER),
    ConfigOption("sqlstream.server.file-roots", _S, "",
                 "Directories, with ; between them, that tables of the connector filesystem may lie in; empty allows all.",
                 scope=_SERVER),
    ConfigOption("sqlstream.server.database-servers.enabled", _B, "false",
                 "Let tables lie on servers to which this one connects: Postgres and MySQL (duckdb, jdbc), Kafka, sockets, HTTP.",
                 scope=_SERVER),
    ConfigOption("sqlstream.server.private-addresses.enabled", _B, "false",
                 "Let tables of HTTP, server-sent events and WebSockets call addresses of this machine and of private networks.",
                 scope=_SERVER),
    ConfigOption("sqlstream.server.python-functions.enabled", _B, "false",
                 "Let users with a role that runs all statements create Python functions, which run as the user of the server.",
                 scope=_SERVER),
    ConfigOption("security.ssl.rest.enabled", _B, "false", "Serve HTTPS instead of HTTP.", scope=_SERVER),
    ConfigOption("security.ssl.rest.certificate-file", _S, "",
                 "The server's certificate and those between it and the authority, as PEM.", scope=_SERVER),
    ConfigOption("security.ssl.rest.key-file", _S, "", "The private key of the certificate, as PEM.", scope=_SERVER),
    ConfigOption("security.ssl.rest.key-password", _S, "", "The password of the private key; empty for none.", scope=_SERVER),
)  # fmt: skip

_KEPT = (
    ConfigOption("sqlstream.data-dir", _S, "",
                 "Where the server keeps catalog, jobs, tokens and logs; empty: sqlstream below $XDG_STATE_HOME.",
                 scope=_SERVER),
    ConfigOption("sqlstream.log.level", _E, "INFO", "The least severe records that are logged.",
                 choices=LOG_LEVELS, scope=Scope.CLUSTER),
    ConfigOption("sqlstream.log.format", _E, "TEXT", "One line of text or one JSON object per record.",
                 choices=("TEXT", "JSON"), scope=Scope.CLUSTER),
    ConfigOption("sqlstream.log.file.max-size", _M, "10 mb", "A log file of this size is closed, and another begun.",
                 minimum=4096, scope=_SERVER),
    ConfigOption("sqlstream.log.file.max-num", _I, "5", "The most closed log files that are kept.",
                 minimum=0, maximum=1000, scope=_SERVER),
)  # fmt: skip

SERVER_OPTIONS: tuple[ConfigOption, ...] = (
    *_ENDPOINTS,
    *_LEADERS,
    *_FLAME_GRAPHS,
    *_LIMITS,
    *_SECURITY,
    *_KEPT,
)
