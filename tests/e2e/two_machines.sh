# For the scripts that need two machines, to be sourced: two network namespaces of this one, with a link between them. Needs root, ip
# and tc. in_a, in_b run a command in either; their addresses are 10.77.0.1 and 10.77.0.2.
machine_a=bridle_a_$$ machine_b=bridle_b_$$

no_machines() {  # prints why not
  [ "$(id -u)" = 0 ] || { echo "network namespaces need root"; return; }
  for program in ip tc; do command -v $program >/dev/null || { echo "$program is not installed (iproute2)"; return; }; done
  ip netns add "$machine_a" 2>/dev/null || { echo "this kernel or container gives no network namespaces"; return; }
  ip netns del "$machine_a"
}
make_machines() {
  ip netns add "$machine_a"
  ip netns add "$machine_b"
  ip link add a$$ netns "$machine_a" type veth peer name b$$ netns "$machine_b"
  local end
  for end in a b; do
    local machine=bridle_${end}_$$ address=10.77.0.1
    [ $end = a ] || address=10.77.0.2
    ip netns exec "$machine" ip link set lo up
    ip netns exec "$machine" ip address add $address/24 dev $end$$
    ip netns exec "$machine" ip link set $end$$ up
  done
}
limit_link() {  # RATE of tc, such as 1gbit: each way
  ip netns exec "$machine_a" tc qdisc replace dev a$$ root tbf rate "$1" burst 512kb latency 100ms
  ip netns exec "$machine_b" tc qdisc replace dev b$$ root tbf rate "$1" burst 512kb latency 100ms
}
cut_link() { ip netns exec "$machine_a" ip link set a$$ down; }
remove_machines() { ip netns del "$machine_a" 2>/dev/null || true; ip netns del "$machine_b" 2>/dev/null || true; }
in_a() { ip netns exec "$machine_a" "$@"; }
in_b() { ip netns exec "$machine_b" "$@"; }
