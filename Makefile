# The doors to this repository. Every target works on a fresh clone.

CARGO ?= cargo

.PHONY: test check peers record brokers vsphere metal3 moves kills properties provider stores bench neighbours crash power-cuts syncs-matter protogen kinds kinds-check azure azure-session azure-figures azure-kinds azure-kinds-check pod-security audit-policy

## test: install what the tests need, then run all of them
test:
	@CARGO="$(CARGO)" tools/test

## check: formatting, lints, dependencies, layers, language, paths and examples; warnings are errors
check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	tools/absences
	$(CARGO) run --quiet --package insula-checks

## peers: the real programs that tests talk to, also those that take minutes to build
peers:
	@tools/peers/install --all >/dev/null

## record: write down anew what a real kube-apiserver answers
record: peers
	UPDATE_GOLDEN=1 $(CARGO) test -p insula-e2e --test differential kube_apiserver_and_insula_match_the_recording
	UPDATE_GOLDEN=1 $(CARGO) test -p insula-e2e --test audit kube_apiserver_matches_the_recording

## brokers: Submariner brokers for many tenants on a real Kubernetes
brokers: peers
	INSULA_BROKER_CLUSTER=kubernetes $(CARGO) test -p insula-e2e --test broker

## vsphere: the README's session of vSphere on a real Kubernetes
vsphere: peers
	INSULA_VSPHERE_CLUSTER=kubernetes $(CARGO) test -p insula-e2e --test session vsphere

## metal3: clusters on bare metal with the controllers of others, and the README's session, on a real Kubernetes
metal3: peers
	INSULA_METAL3_CLUSTER=kubernetes $(CARGO) test -p insula-e2e --test metal3
	INSULA_METAL3_CLUSTER=kubernetes $(CARGO) test -p insula-e2e --test session metal3

## provider: the example of a provider, on an Insula and on a real Kubernetes
provider: peers
	@eval "$$(tools/peers/install --all | sed 's/^/export /')"; $(CARGO) test -p example-provider

## moves: moves of bare-metal clusters, killed or failing at every write
moves:
	@eval "$$(tools/peers/install | sed 's/^/export /')"; INSULA_MOVE_ACCIDENTS=all $(CARGO) test -p insula-metal3 --test moves

## kills: the Metal3 operator, killed at every write to any server, and the broker operator, killed
## at every write and with every failure of every request
kills:
	@eval "$$(tools/peers/install | sed 's/^/export /')"; export INSULA_OPERATOR_KILLS=all; \
		$(CARGO) test -p insula-metal3 --test machines --test data --test remediation -- crash && \
		$(CARGO) test -p insula-broker --test operator -- faults

## properties: the property tests of codecs with 2,000 cases; make test has 256
properties:
	PROPTEST_CASES=2000 $(CARGO) test -p insula-kinds --test codec_props

## stores: the whole server suite on the embedded store and on etcd
stores:
	@eval "$$(tools/peers/install | sed 's/^/export /')"; for store in embedded etcd; do \
		INSULA_TEST_STORE=$$store $(CARGO) test -p insula-apiserver -p insula-controllers || exit 1; \
	done

## bench: measure, beside what Insula replaces, on a quiet machine; a million objects and 100,000 tenants take a while
bench:
	@tools/peers/install >/dev/null
	$(CARGO) build --release -p insula-bench -p insula-cli
	./target/release/insula-bench store --date "$$(date +%F)" > bench/RESULTS.md.new
	echo >> bench/RESULTS.md.new
	./target/release/insula-bench api --plots bench/plots --date "$$(date +%F)" >> bench/RESULTS.md.new
	mv bench/RESULTS.md.new bench/RESULTS.md

## neighbours: measure a quiet tenant beside a noisy one; takes about eight minutes, on a quiet machine
neighbours:
	$(CARGO) build --release -p insula-bench -p insula-cli
	./target/release/insula-bench neighbours --date "$$(date +%F)" > bench/NEIGHBOURS.md.new
	mv bench/NEIGHBOURS.md.new bench/NEIGHBOURS.md

## crash: kill -9 a writer 1,000 times and judge each recovery
crash:
	INSULA_CRASH_ROUNDS=1000 $(CARGO) test --release -p insula-e2e --test kill -- --nocapture

## power-cuts: cut the power of the simulated disk 10,000 times
power-cuts:
	INSULA_POWER_CUTS=10000 $(CARGO) test --release -p insula-store --test power_cut nothing_acknowledged -- --nocapture

## syncs-matter: remove each sync from the code in turn and show that a test turns red
syncs-matter:
	tools/syncs-matter

## protogen: generate the wire types of etcd again
protogen:
	$(CARGO) run --manifest-path tools/protogen/Cargo.toml

## kinds: generate the tables of Kubernetes facts; needs Go, and 10 minutes the first time
kinds:
	tools/kindgen/generate

## kinds-check: fail if the tables are not those of the Kubernetes that they are generated from
kinds-check:
	tools/kindgen/generate --check

## azure-kinds: generate the table and the definitions of Azure's kinds; needs Go
azure-kinds:
	tools/asogen/generate

## azure-kinds-check: fail if they are not those of the module that they are generated from
azure-kinds-check:
	tools/asogen/generate --check
	go test -C tools/asogen .

## azure: compare bodies, definitions and conversions with those of Azure Service Operator, kill its
## operator at every write, race two of them 1,000 times, and migrate 10,000 stored objects; needs Go
azure: azure-session
	@folder=$$(mktemp -d) && trap 'rm -rf -- "$$folder"' EXIT && \
		tools/asogen/generate --bodies "$$folder/bodies" && \
		tools/asogen/generate --released "$$folder/released" && \
		INSULA_AZURE_BODIES="$$folder/bodies" INSULA_AZURE_RELEASED="$$folder/released" \
		INSULA_AZURE_KILLS=all INSULA_AZURE_RACES=1000 INSULA_AZURE_OBJECTS=10000 \
		$(CARGO) test -p insula-azure --test bodies --test conversion --test table --test crash --test tenancy --test storage

## azure-session: the README's session of Azure on a real Kubernetes; make azure runs it too
azure-session: peers
	INSULA_AZURE_CLUSTER=kubernetes $(CARGO) test -p insula-e2e --test session azure

## azure-figures: measure the Azure operator, and a server that publishes all of its kinds; needs Go
azure-figures:
	$(CARGO) build --release -p insula-bench -p insula-cli
	@folder=$$(mktemp -d) && trap 'rm -rf -- "$$folder"' EXIT && \
		tools/asogen/generate --released "$$folder" && \
		./target/release/insula-bench api --only azure,published --definitions "$$folder" --date "$$(date +%F)"

## pod-security: record anew what Kubernetes' PodSecurity says about the pods and requests of its tables; needs Go
pod-security:
	go run -C tools/kindgen ./podsecurity --out "$(CURDIR)/crates/admission/tests/data"

## audit-policy: record anew what Kubernetes' audit policies say about the requests of a table; needs Go
audit-policy:
	go run -C tools/kindgen ./auditpolicy --out "$(CURDIR)/crates/apiserver/tests/data/audit_policy.jsonl"
