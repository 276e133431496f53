# The operator, for a real cluster. Build it under the name that the manifests use:
#   docker build -t trainshed/training-operator:0.1.0 .
FROM python:3.12-slim
COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
RUN pip install --no-cache-dir /src && rm -rf /src
USER 65532:65532
ENTRYPOINT ["python", "-m", "trainshed.operator"]
