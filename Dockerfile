# Polyhop with its encoder's weights, litellm and Matplotlib, as the lock file has it; no PyTorch, and no network when it runs (docs/install.md).
# tests/e2e/test_bare_environment.py runs these steps without an engine, and knows the instructions used here.
FROM python:3.11-slim AS build
ENV UV_PYTHON_DOWNLOADS=never
RUN pip install --no-cache-dir --disable-pip-version-check --root-user-action=ignore uv==0.13.9
WORKDIR /src
COPY . .
RUN for package in polyhop polyhop-weights; do uv build --quiet --package "$package" --wheel --out-dir /dist; done
RUN uv export --quiet --locked --no-dev --all-extras --no-emit-workspace --no-hashes --output-file /dist/constraints.txt
RUN uv venv --quiet /opt/polyhop \
    && uv pip install --quiet --python /opt/polyhop --constraints /dist/constraints.txt \
    "$(ls /dist/polyhop-*.whl)[plots]" /dist/polyhop_weights-*.whl
# Compiles the modules that commands import, once: the image's user can keep no bytecode.
RUN /opt/polyhop/bin/polyhop demo --root /src/demo

FROM python:3.11-slim
COPY --from=build /opt/polyhop /opt/polyhop
# /data holds indexes, caches and what packages keep in a home folder; sticky, so that any --user may write there.
RUN mkdir -p -m 1777 /data
ENV PATH=/opt/polyhop/bin:$PATH HOME=/data POLYHOP_ROOT=/data/polyhop-data
VOLUME /data
WORKDIR /work
USER 1000:1000
ENTRYPOINT ["polyhop"]
CMD ["--help"]
