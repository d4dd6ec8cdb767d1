# The image of the chart helm/keylane: one static program, which also runs inside other images (the chart puts it beside a handler).
FROM rust:1.95-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --no-install-recommends -y musl-tools \
 && rm -rf /var/lib/apt/lists/* \
 && rustup target add "$(uname -m)-unknown-linux-musl"
WORKDIR /keylane
COPY . .
# librdkafka, OpenSSL, zlib, zstd and SQLite are built from source, by musl's compiler.
ENV LIBZ_SYS_STATIC=1 CC_x86_64_unknown_linux_musl=musl-gcc CC_aarch64_unknown_linux_musl=musl-gcc
RUN cargo build --release --locked --target "$(uname -m)-unknown-linux-musl" --package keylane \
 && cp "target/$(uname -m)-unknown-linux-musl/release/keylane" /usr/local/bin/keylane \
 && strip /usr/local/bin/keylane \
 && keylane --version

# Busybox has the `cp` that the chart's first container needs, and nothing that listens.
FROM busybox:1.37.0-musl
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /usr/local/bin/keylane /usr/local/bin/keylane
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["/usr/local/bin/keylane"]
