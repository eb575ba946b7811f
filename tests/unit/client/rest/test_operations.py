"""No operation of Flink's REST is left without an answer."""

import re

import pytest

OPERATIONS = """
DELETE /cluster
DELETE /datasets/:datasetid
DELETE /jars/:jarid
GET /applications/:applicationid
GET /applications/:applicationid/exceptions
GET /applications/:applicationid/jobmanager/config
GET /applications/overview
GET /config
GET /datasets
GET /datasets/delete/:triggerid
GET /jars
GET /jars/:jarid/plan
GET /jobmanager/config
GET /jobmanager/environment
GET /jobmanager/logs
GET /jobmanager/metrics
GET /jobmanager/thread-dump
GET /jobs
GET /jobs/:jobid
GET /jobs/:jobid/accumulators
GET /jobs/:jobid/checkpoints
GET /jobs/:jobid/checkpoints/:triggerid
GET /jobs/:jobid/checkpoints/config
GET /jobs/:jobid/checkpoints/details/:checkpointid
GET /jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid
GET /jobs/:jobid/config
GET /jobs/:jobid/exceptions
GET /jobs/:jobid/execution-result
GET /jobs/:jobid/jobmanager/config
GET /jobs/:jobid/jobmanager/environment
GET /jobs/:jobid/jobmanager/log-url
GET /jobs/:jobid/metrics
GET /jobs/:jobid/plan
GET /jobs/:jobid/rescales/config
GET /jobs/:jobid/rescales/details/:rescaleuuid
GET /jobs/:jobid/rescales/history
GET /jobs/:jobid/rescales/overview
GET /jobs/:jobid/rescales/summary
GET /jobs/:jobid/rescaling/:triggerid
GET /jobs/:jobid/resource-requirements
GET /jobs/:jobid/savepoints/:triggerid
GET /jobs/:jobid/status
GET /jobs/:jobid/taskmanagers/:taskmanagerid/log-url
GET /jobs/:jobid/vertices/:vertexid
GET /jobs/:jobid/vertices/:vertexid/accumulators
GET /jobs/:jobid/vertices/:vertexid/backpressure
GET /jobs/:jobid/vertices/:vertexid/flamegraph
GET /jobs/:jobid/vertices/:vertexid/jm-operator-metrics
GET /jobs/:jobid/vertices/:vertexid/metrics
GET /jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex
GET /jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/attempts/:attempt
GET /jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/attempts/:attempt/accumulators
GET /jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex/metrics
GET /jobs/:jobid/vertices/:vertexid/subtasks/accumulators
GET /jobs/:jobid/vertices/:vertexid/subtasks/metrics
GET /jobs/:jobid/vertices/:vertexid/subtasktimes
GET /jobs/:jobid/vertices/:vertexid/taskmanagers
GET /jobs/:jobid/vertices/:vertexid/watermarks
GET /jobs/metrics
GET /jobs/overview
GET /overview
GET /savepoint-disposal/:triggerid
GET /taskmanagers
GET /taskmanagers/:taskmanagerid
GET /taskmanagers/:taskmanagerid/logs
GET /taskmanagers/:taskmanagerid/metrics
GET /taskmanagers/:taskmanagerid/thread-dump
GET /taskmanagers/metrics
PATCH /jobs/:jobid
PATCH /jobs/:jobid/clientHeartbeat
PATCH /jobs/:jobid/rescaling
POST /applications/:applicationid/cancel
POST /jars/:jarid/plan
POST /jars/:jarid/run
POST /jars/:jarid/run-application
POST /jars/upload
POST /jobs
POST /jobs/:jobid/checkpoints
POST /jobs/:jobid/coordinators/:operatorUid
POST /jobs/:jobid/savepoints
POST /jobs/:jobid/stop
POST /savepoint-disposal
PUT /jobs/:jobid/resource-requirements
"""


@pytest.mark.parametrize("operation", OPERATIONS.split("\n")[1:-1])
def test_an_operation_is_answered_or_refused_with_a_reason(rest, operation):
    method, path = operation.split(" ")
    url = re.sub(":[a-zA-Z]+", "a" * 32, path)
    answer = rest.request(method, url)
    assert answer.headers["content-type"].startswith("application/json")
    if answer.status_code >= 400:
        assert answer.json().get("errors")
