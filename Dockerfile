# The image of all parts of a cluster: `server` by default, `taskmanager --join …`, `submit …`, and every other command.
#
#   docker build -t sqlstream .
#   docker run -p 127.0.0.1:8083:8083 -p 127.0.0.1:8081:8081 -v sqlstream:/var/lib/sqlstream sqlstream
FROM python:3.12-slim-bookworm AS build
WORKDIR /source
COPY . .
# The compiled kernels come in the wheel.
RUN python -m pip wheel --no-cache-dir --constraint constraints.txt --wheel-dir /wheels ".[leaders]"

FROM python:3.12-slim-bookworm
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    python -m pip install --no-cache-dir --no-index --find-links /wheels "sqlstream[leaders]" \
    && useradd --uid 10001 --create-home --home-dir /var/lib/sqlstream sqlstream
USER 10001
WORKDIR /var/lib/sqlstream
ENV SQLSTREAM_DATA_DIR=/var/lib/sqlstream/data \
    SQLSTREAM_SQL_GATEWAY_ENDPOINT_REST_BIND_ADDRESS=0.0.0.0 \
    SQLSTREAM_REST_BIND_ADDRESS=0.0.0.0
VOLUME /var/lib/sqlstream
EXPOSE 6123 6124 8081 8083
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8081/health', timeout=4)"]
ENTRYPOINT ["sqlstream"]
CMD ["server"]
