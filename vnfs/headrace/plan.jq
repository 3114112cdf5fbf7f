# SPDX-License-Identifier: Apache-2.0
# The engine's plan from what an entry point is told of its place (docs/vnfs.md).
def words: split(" ") | map(select(. != ""));
def port($n; $device): {type: "port", params: {devargs:
    (if $link == "af_xdp" then "net_af_xdp\($n),iface=\($device)"
     else "net_af_packet\($n),iface=\($device),blocksz=65536,framesz=2048,framecnt=512" end)}};
# RFC 5737's 203.0.113.0/24 never occurs: each rule is looked at and passed.
def filler: [range($rules) | {action: "deny", proto: "tcp", src: "203.0.113.\(. % 256)/32",
    dport: [1024 + (. / 256 | floor)]}];
def permitted: [$allow | words[] | split(":") | {action: "permit", proto: .[0],
    dport: [(.[1] | tonumber)]}] + [{action: "permit", proto: "icmp"}];

($neighbours | words | map(split("=") | {device: .[0], address: .[1], mac: .[2]})) as $near
| ($near | map(.address)) as $addresses
| {
    next_hops: [$near[] | {dst_mac: .mac} + (if .device == $up then {edge: 1, src_mac: $up_mac}
        else {edge: 0, src_mac: $down_mac} end)],
    routes: ([$near | to_entries[] | {prefix: (.value.address + "/32"), next_hop: .key}]
        + [$routes | words[] | split("=") | . as [$prefix, $via]
            | {prefix: $prefix, next_hop: ($addresses | index($via))}])
  } as $l3
| (if $functions == "firewall" then "firewall" else "router" end) as $first
| {
    version: 1,
    engine: {hugepages: false, memory_mb: 256, mbufs: 16383, mbuf_data_bytes: 2176,
        file_prefix: "headrace-vnf"},
    links: {up: port(0; $up), down: port(1; $down)},
    nfs: ({router: {type: "l3fwd", params: $l3}}
        + (if $first == "firewall"
           then {firewall: {type: "firewall", params: {rules: (filler + permitted)}}} else {} end)),
    segments: [{
        name: "chain", cpus: [$lcore],
        inputs: [{link: "up", to: $first, direction: "forward"},
            {link: "down", to: $first, direction: "reverse"}],
        nodes: ({router: {forward: {out0: "link:down", out1: "link:up"}}}
            + (if $first == "firewall"
               then {firewall: {forward: {pass: "router"}, reverse: {pass: "router"}}} else {} end))
    }]
  }
