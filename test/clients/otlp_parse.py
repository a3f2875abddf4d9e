"""Parses OTLP requests by the official protos: `otlp_parse.py FILE...`, each with a line `PATH JSON`. Unknown fields fail."""

import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}

for name in sys.argv[1:]:
    with open(name) as file:
        path, text = file.read().split(" ", 1)
    # Ids are in hexadecimal digits, which the parser takes for base64: both are texts of the same field.
    message = json_format.Parse(text, KINDS[path]())
    print(path, message.ByteSize() > 0)
