#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A Kubernetes of this machine's own, for tests: a control plane and two nodes, each in namespaces of
# its own, so that nothing of it is on the host's network. Needs root, and two CPUs: each node gives
# one to pods (static CPU manager), and keeps the other.
#
#   scripts/cluster.sh build       the programs, from the Go modules of their projects (once: 10 to 30 minutes)
#   scripts/cluster.sh up          the control plane and both nodes (about half a minute)
#   scripts/cluster.sh load IMAGE  an image of podman's, to both nodes
#   scripts/cluster.sh run CMD     a command that reaches the cluster, with KUBECONFIG
#   scripts/cluster.sh fake N      N more nodes, which kwok simulates: pods are placed there, and run nothing
#   scripts/cluster.sh down        everything stopped and removed; kernel settings as before
#
# Kept in ~/.cache/headrace/kubernetes (HEADRACE_CLUSTER names another folder). CLUSTER_MEMORY=8G: what both nodes
# have, images too, is in memory, as far as that; on a busy disk that spares minutes. CLUSTER_HUGEPAGES=256: so many
# pages of 2 MB are reserved for pods; each node offers all of them, as both are one machine.
set -euo pipefail

tests=$(cd "$(dirname "$0")/../tests/kubernetes" && pwd)
home=${HEADRACE_CLUSTER:-${XDG_CACHE_HOME:-$HOME/.cache}/headrace/kubernetes}
version=v1.33.1
multus=v4.1.4
kwok=v0.7.0
bin=$home/bin-$version
state=$home/state pki=$home/state/pki
pool=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
group=headrace-$(printf %s "$home" | cksum | cut -d' ' -f1) # control groups of this one's nodes
claims=--feature-gates=DynamicResourceAllocation=true # from 1.34 on it is there without
settings=(vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops kernel.keys.root_maxkeys
	kernel.keys.root_maxbytes)

die() {
	printf 'cluster: %s\n' "$@" >&2
	exit 1
}

# A module that requires Kubernetes, with the versions which its own release was made with: its
# staging folders are modules of their own.
module() {
	local own
	mkdir -p "$home/build/kubernetes"
	cd "$home/build/kubernetes"
	own=$(cd / && go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	[ -d "$own" ] || die "the Go module k8s.io/kubernetes@$version could not be had"
	sed -E "s|^module .*|module headrace.test/cluster|
		s|=> \./staging/src/(k8s.io/[a-z0-9-]+)|=> \1 v0${version#v1}|" "$own/go.mod" >go.mod
	echo "require k8s.io/kubernetes $version" >>go.mod
	cat "$own/go.sum" >go.sum
}

# One after the other and one compiler at a time: other work on this machine goes on.
build() {
	command -v go >/dev/null || die "Go 1.24 or later is needed to build Kubernetes"
	export CGO_ENABLED=0 GOFLAGS="-mod=mod -buildvcs=false -trimpath -p=${CLUSTER_JOBS:-1}"
	local package plugin=gopkg.in/k8snetworkplumbingwg/multus-cni.v4
	local set="-s -w -X k8s.io/component-base/version.gitVersion=$version"
	set+=" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=33"
	set+=" -X k8s.io/client-go/pkg/version.gitVersion=$version"
	mkdir -p "$bin"
	module
	for package in k8s.io/kubernetes/cmd/{kubectl,kube-apiserver,kube-controller-manager,kube-scheduler,kubelet} \
		go.etcd.io/etcd/server/v3; do
		program "$package" "$set"
	done
	mkdir -p device-plugin # one of the tests' own
	cp "$tests/device-plugin/main.go" device-plugin/
	[ "$bin/device-plugin" -nt "$tests/device-plugin/main.go" ] || rm -f "$bin/device-plugin"
	program headrace.test/cluster/device-plugin "-s -w"
	mkdir -p "$home/build/multus"
	cd "$home/build/multus"
	[ -f go.mod ] || go mod init headrace.test/multus
	[ -x "$bin/multus" ] || go get "$plugin@$multus"
	program "$plugin/cmd/multus" "-s -w"
	mkdir -p "$home/build/kwok"
	cd "$home/build/kwok"
	[ -f go.mod ] || go mod init headrace.test/kwok
	[ -x "$bin/kwok" ] || go get "sigs.k8s.io/kwok@$kwok"
	program sigs.k8s.io/kwok/cmd/kwok "-s -w"
	cd "$home/build/multus"
	# Its type of object: the first of what it is deployed by.
	awk '/^---$/ {documents++} documents == 1' "$(go list -m -f '{{.Dir}}' $plugin)/deployments/multus-daemonset.yml" \
		>"$bin/network-attachments.yaml"
	printf '%s\n' '#include <unistd.h>' 'int main(void) { for (;;) pause(); }' | gcc -x c -O2 -static -o "$bin/pause" -
}

program() {
	local package=$1 set=$2 name
	name=${package##*/}
	[ "$package" != go.etcd.io/etcd/server/v3 ] || name=etcd
	[ ! -x "$bin/$name" ] || return 0
	echo "cluster: building $name"
	nice -n 19 go build -ldflags "$set" -o "$bin/.$name" "$package"
	mv "$bin/.$name" "$bin/$name"
}

# --- certificates: of an authority that lives as long as the cluster ------------------------------

authority() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.crt \
		-days 30 -subj /CN=headrace-test -addext basicConstraints=critical,CA:TRUE \
		-addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature
}

certificate() { # NAME SUBJECT USE [ADDRESSES]
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2"
	printf '%s\n' "extendedKeyUsage=$3" ${4:+"subjectAltName=$4"} >"$1.ext"
	openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile "$1.ext" -out "$1.crt"
}

kubeconfig() { # NAME SUBJECT
	certificate "$1" "$2" clientAuth
	cat >"$1.kubeconfig" <<-EOF
		apiVersion: v1
		kind: Config
		clusters: [{name: c, cluster: {server: "https://10.99.0.1:6443", certificate-authority-data: $(base64 -w0 ca.crt)}}]
		users: [{name: u, user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}}]
		contexts: [{name: x, context: {cluster: c, user: u}}]
		current-context: x
	EOF
}

certificates() {
	mkdir -p "$pki"
	cd "$pki"
	authority
	certificate apiserver /CN=kube-apiserver serverAuth "IP:127.0.0.1,IP:10.99.0.1,IP:10.96.0.1,DNS:kubernetes.default"
	certificate apiserver-kubelet /O=system:masters/CN=apiserver-kubelet clientAuth
	kubeconfig admin /O=system:masters/CN=admin
	kubeconfig least /CN=least # who may nothing but what a test allows; all that it asks is in log/audit
	kubeconfig manager /CN=system:kube-controller-manager
	kubeconfig scheduler /CN=system:kube-scheduler
	for node in 1 2; do
		kubeconfig "kubelet$node" "/O=system:nodes/CN=system:node:node$node"
		certificate "kubelet$node-server" "/CN=node$node" serverAuth "IP:10.99.0.$node,DNS:node$node"
	done
	openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out accounts.key
	openssl rsa -in accounts.key -pubout -out accounts.pub
}

# --- nodes ----------------------------------------------------------------------------------------

inside() { # NODE CMD...
	local node=$1
	shift
	nsenter -t "$(cat "$state/node$node.pid")" -m -n -p -u -- "$@"
}

daemon() { # NODE NAME CMD...
	local node=$1 name=$2
	shift 2
	setsid nsenter -t "$(cat "$state/node$node.pid")" -m -n -p -u -- "$@" \
		>"$state/log/$name$node" 2>&1 </dev/null &
}

node() { # a machine of namespaces, whose first process is a pause
	local node=$1 folder=$state/fs$1 place pid
	for place in kubelet containerd run cni-conf cni-bin cni-state logs; do mkdir -p "$folder/$place"; done
	cat >"$state/node$node.sh" <<-EOF
		set -e
		hostname node$node
		mount --make-rshared /
		for place in kubelet:/var/lib/kubelet containerd:/var/lib/containerd run:/run/containerd cni-conf:/etc/cni/net.d \\
			cni-bin:/opt/cni/bin cni-state:/var/lib/cni logs:/var/log/pods; do
			mkdir -p "\${place#*:}"
			mount --bind "$folder/\${place%%:*}" "\${place#*:}"
			mount --make-shared "\${place#*:}"
		done
		mkdir -p /run/netns
		mount -t tmpfs tmpfs /run/netns
		mount --make-shared /run/netns
		ip link set lo up
		sysctl -qw net.ipv4.ip_forward=1
		touch "$folder/ready"
		exec "$bin/pause"
	EOF
	rm -f "$folder/ready"
	setsid unshare --mount --net --pid --uts --fork --kill-child --mount-proc --propagation private \
		bash "$state/node$node.sh" >"$state/log/namespaces$node" 2>&1 </dev/null &
	pid=$!
	echo $pid >"$state/unshare$node.pid"
	until [ -e "$folder/ready" ]; do
		[ -d /proc/$pid ] || die "node $node: $(tail -n 1 "$state/log/namespaces$node")"
		sleep 0.1
	done
	pgrep -P $pid >"$state/node$node.pid"
	cp /usr/lib/cni/* "$bin/multus" "$folder/cni-bin/"
	for place in /sys/fs/cgroup/*/; do
		[ -e "$place/cgroup.procs" ] || continue
		mkdir -p "$place/$group-node$node"
		[ ! -e "$place/cpuset.cpus" ] || for file in cpuset.cpus cpuset.mems; do
			cat "$place/$file" >"$place/$group-node$node/$file"
		done
		# A machine's own: a pod without CPUs of its own has a weight of 2, beside all that runs here.
		[ ! -e "$place/$group-node$node/cpu.shares" ] || echo 262144 >"$place/$group-node$node/cpu.shares"
	done
	configure "$node" "$folder"
}

configure() {
	local node=$1 folder=$2 bridge
	bridge='{"type":"bridge","bridge":"cni0","isGateway":true,"hairpinMode":true,"ipam":{"type":"host-local","ranges":[[{"subnet":"10.244.'$node'.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}}'
	cat >"$folder/cni-conf/00-multus.conflist" <<-EOF
		{"cniVersion":"1.0.0","name":"multus","plugins":[{"type":"multus","kubeconfig":"$pki/admin.kubeconfig",
		"delegates":[{"cniVersion":"1.0.0","name":"cluster","plugins":[$bridge]}]}]}
	EOF
	cat >"$state/containerd$node.toml" <<-EOF
		version = 2
		disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
		[plugins."io.containerd.grpc.v1.cri"]
		sandbox_image = "localhost/headrace/pause:1"
		restrict_oom_score_adj = true
		disable_apparmor = true
		stream_server_address = "127.0.0.1"
		[plugins."io.containerd.grpc.v1.cri".containerd]
		snapshotter = "overlayfs"
		[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		runtime_type = "io.containerd.runc.v2"
		[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
		SystemdCgroup = false
	EOF
	cat >"$state/kubelet$node.yaml" <<-EOF
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		failCgroupV1: false
		failSwapOn: false
		cgroupDriver: cgroupfs
		cgroupRoot: /$group-node$node
		containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
		authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
		authorization: {mode: Webhook}
		tlsCertFile: $pki/kubelet$node-server.crt
		tlsPrivateKeyFile: $pki/kubelet$node-server.key
		address: 10.99.0.$node
		resolvConf: ""
		maxOpenFiles: 20000
		oomScoreAdj: 0
		cpuManagerPolicy: static
		reservedSystemCPUs: "$((node - 1))"
		topologyManagerPolicy: single-numa-node
		imageGCHighThresholdPercent: 100
		imageGCLowThresholdPercent: 99
		evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
	EOF
}

wire() { # the two nodes' own network
	local first second
	first=$(cat "$state/node1.pid") second=$(cat "$state/node2.pid")
	inside 1 ip link add eth0 type bridge
	inside 1 ip addr add 10.99.0.1/24 dev eth0
	inside 1 ip link set eth0 up
	nsenter -t "$first" -n ip link add to-node2 type veth peer name eth0 netns "/proc/$second/ns/net"
	inside 1 ip link set to-node2 master eth0 up
	inside 2 ip addr add 10.99.0.2/24 dev eth0
	inside 2 ip link set eth0 up
	inside 1 ip route add default dev eth0
	inside 2 ip route add default via 10.99.0.1
	inside 1 ip route add 10.244.2.0/24 via 10.99.0.2
	inside 2 ip route add 10.244.1.0/24 via 10.99.0.1
}

# --- up and down ----------------------------------------------------------------------------------

# Others change the pool, too: it is read and written under the lock that the lab takes, and only what was put on is
# taken off again.
pages() ( # MORE, or with a minus sign fewer
	exec 9<"$pool"
	flock 9
	before=$(cat "$pool")
	echo $((before + $1)) >"$pool"
	echo $(($(cat "$pool") - before))
)

within() { # SECONDS WHAT CMD...
	local seconds=$1 what=$2 end
	end=$((SECONDS + seconds))
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || die "$what: not after $seconds s; see $state/log"
		sleep 0.3
	done
}

kubectl() { inside 1 "$bin/kubectl" --kubeconfig "$pki/admin.kubeconfig" "$@"; }
both_ready() { [ "$(kubectl get nodes --no-headers | grep -c ' Ready')" = 2 ]; }

audit() { # what the user `least` asks for
	printf '%s\n' 'apiVersion: audit.k8s.io/v1' 'kind: Policy' 'omitStages: [RequestReceived]' \
		'rules: [{level: Metadata, users: [least]}, {level: None}]' >"$state/audit.yaml"
	echo "--audit-policy-file $state/audit.yaml --audit-log-path $state/log/audit --audit-log-mode blocking"
}

control_plane() {
	daemon 1 etcd "$bin/etcd" --data-dir "$state/etcd" --unsafe-no-fsync \
		--listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
		--listen-peer-urls http://127.0.0.1:2380
	# shellcheck disable=SC2046
	daemon 1 apiserver "$bin/kube-apiserver" $(audit) --etcd-servers http://127.0.0.1:2379 --advertise-address 10.99.0.1 \
		--tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key" \
		--client-ca-file "$pki/ca.crt" --kubelet-certificate-authority "$pki/ca.crt" \
		--kubelet-client-certificate "$pki/apiserver-kubelet.crt" --kubelet-client-key "$pki/apiserver-kubelet.key" \
		--kubelet-preferred-address-types InternalIP --service-account-key-file "$pki/accounts.pub" \
		--service-account-signing-key-file "$pki/accounts.key" --service-cluster-ip-range 10.96.0.0/16 \
		--service-account-issuer https://kubernetes.default.svc --authorization-mode Node,RBAC \
		--enable-admission-plugins NodeRestriction --allow-privileged=true --endpoint-reconciler-type lease \
		"$claims" --runtime-config resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true
	within 60 "the API server" kubectl get --raw /readyz
	local own="--authentication-kubeconfig $pki/manager.kubeconfig --authorization-kubeconfig $pki/manager.kubeconfig"
	# shellcheck disable=SC2086
	daemon 1 manager "$bin/kube-controller-manager" --kubeconfig "$pki/manager.kubeconfig" $own \
		--bind-address 127.0.0.1 --leader-elect=false --root-ca-file "$pki/ca.crt" \
		--service-account-private-key-file "$pki/accounts.key" --use-service-account-credentials \
		--kube-api-qps 500 --kube-api-burst 1000 "$claims"
	daemon 1 scheduler "$bin/kube-scheduler" --kubeconfig "$pki/scheduler.kubeconfig" "$claims" \
		--bind-address 127.0.0.1 --leader-elect=false --kube-api-qps 500 --kube-api-burst 1000
}

up() {
	[ "$(id -u)" = 0 ] || die "needs root: it makes namespaces"
	[ -x "$bin/pause" ] || die "nothing is built: scripts/cluster.sh build"
	[ ! -e "$state" ] || down
	mkdir -p "$state"
	[ -z "${CLUSTER_MEMORY:-}" ] || mount -t tmpfs -o "size=$CLUSTER_MEMORY" headrace-cluster "$state"
	mkdir "$state/log"
	sysctl "${settings[@]}" >"$state/settings" 2>/dev/null || true
	[ -z "${CLUSTER_HUGEPAGES:-}" ] || pages "$CLUSTER_HUGEPAGES" >"$state/hugepages" # kubelets look as they start
	certificates 2>"$state/log/certificates"
	cd "$state"
	for node in 1 2; do
		node $node
		daemon $node containerd /usr/bin/containerd -c "$state/containerd$node.toml"
	done
	wire
	control_plane
	tar -c -C "$bin" pause | podman import --quiet --change 'ENTRYPOINT ["/pause"]' - localhost/headrace/pause:1 >/dev/null
	load localhost/headrace/pause:1
	podman rmi --force localhost/headrace/pause:1 >/dev/null # both nodes have it
	for node in 1 2; do
		daemon $node kubelet "$bin/kubelet" --kubeconfig "$pki/kubelet$node.kubeconfig" \
			--config "$state/kubelet$node.yaml" --hostname-override node$node --node-ip 10.99.0.$node
	done
	kubectl apply -f "$bin/network-attachments.yaml" >/dev/null
	within 60 "both nodes ready" both_ready
	within 30 "the default account" kubectl get serviceaccount default
}

load() { # layers that images have in common are in one archive once
	rm -f "$state/images.tar" # of a load that was broken off
	podman save --quiet --multi-image-archive -o "$state/images.tar" "$@"
	local going=()
	for node in 1 2; do
		within 20 "containerd of node $node" inside $node ctr version
		inside $node ctr -n k8s.io images import "$state/images.tar" >/dev/null &
		going+=($!)
	done
	for node in "${going[@]}"; do
		wait "$node" || die "an image was not taken"
	done
	rm "$state/images.tar"
}

fake() {
	local number
	[ -x "$bin/kwok" ] || die "no kwok is built: scripts/cluster.sh build"
	[ -e "$state/log/kwok1" ] || daemon 1 kwok "$bin/kwok" --kubeconfig "$pki/admin.kubeconfig" --manage-all-nodes=false \
		--manage-nodes-with-annotation-selector kwok.x-k8s.io/node=fake --cidr 10.245.0.0/16 --node-ip 10.99.0.1
	for number in $(seq "$1"); do
		cat <<-EOF
			---
			apiVersion: v1
			kind: Node
			metadata:
			  name: fake$number
			  annotations: {kwok.x-k8s.io/node: fake}
			  labels: {type: kwok, kubernetes.io/hostname: fake$number, kubernetes.io/os: linux}
			status:
			  allocatable: {cpu: "32", memory: 256Gi, pods: "110"}
			  capacity: {cpu: "32", memory: 256Gi, pods: "110"}
		EOF
	done >"$state/fake.yaml"
	kubectl create -f "$state/fake.yaml" >/dev/null
	within 300 "the simulated nodes" all_ready "$1"
}

# To ask for a thousand nodes takes a second of the API server's time; kubectl wait asks for each, five a second.
all_ready() {
	[ "$(kubectl get nodes -l type=kwok --no-headers | grep -c ' Ready')" = "$1" ] || { sleep 3 && false; }
}

down() {
	local node folder
	for node in 1 2; do
		[ ! -e "$state/unshare$node.pid" ] || kill -9 "$(cat "$state/unshare$node.pid")" 2>/dev/null || true
	done
	sleep 0.5 # the kernel ends what is in the namespaces
	for folder in /sys/fs/cgroup/*/"$group"-node[12]; do
		[ -d "$folder" ] || continue
		find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || true
		[ ! -d "$folder" ] || echo "cluster: $folder is not empty" >&2
	done
	[ ! -s "$state/hugepages" ] || pages "-$(cat "$state/hugepages")" >/dev/null
	[ ! -e "$state/settings" ] || sysctl -q -p "$state/settings" >/dev/null || true
	! mountpoint -q "$state" || umount -l "$state"
	rm -rf --one-file-system "$state"
}

case ${1:-} in
build | up | down) "$1" ;;
load)
	shift
	load "$@"
	;;
fake)
	[[ ${2:-} =~ ^[1-9][0-9]*$ ]] || die "fake '${2:-}': allowed: a number of nodes"
	fake "$2"
	;;
run)
	shift
	KUBECONFIG=$pki/admin.kubeconfig PATH=$bin:$PATH exec nsenter -t "$(cat "$state/node1.pid")" -n -- "$@"
	;;
*) die "'${1:-}': not a command; allowed: build, up, load, run, fake, down" ;;
esac
