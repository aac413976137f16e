# glibc, not musl: PostgreSQL's parser needs deeper thread stacks than musl gives.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=1 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /fenceproxy ./cmd/fenceproxy

# No shell, no package manager; runs as nonroot (65532).
FROM gcr.io/distroless/base-debian12:nonroot
COPY --from=build /fenceproxy /usr/bin/fenceproxy
EXPOSE 6432 9432
ENTRYPOINT ["/usr/bin/fenceproxy"]
CMD ["serve"]
