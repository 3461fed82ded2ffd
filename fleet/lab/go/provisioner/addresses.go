package main

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"sync"
)

// Addresses of simulated nodes and pods are of the loopback range: no packet to one leaves this machine, whoever sends
// it, such as an operator beside the lab. A connection is refused, unless a program here listens on all addresses
// (0.0.0.0) at that port: then that program answers. 127.0.0.0/10, where programs listen, has none of these addresses,
// and Services have theirs of 127.96.0.0/16.
var (
	nodeAddresses = netip.MustParsePrefix("127.64.0.0/11")
	podAddresses  = netip.MustParsePrefix("127.128.0.0/9")
)

// addresses are those in use, each by one owner.
type addresses struct {
	lock   sync.Mutex
	owners map[netip.Addr]string
	owned  map[string]netip.Addr
}

// take gives an owner its address: the one that it has, or had before this process began, or one that is free.
func (a *addresses) take(from netip.Prefix, owner, before string) string {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.owners == nil {
		a.owners, a.owned = map[netip.Addr]string{}, map[string]netip.Addr{}
	}
	if address, has := a.owned[owner]; has {
		return address.String()
	}
	address, err := netip.ParseAddr(before)
	if err != nil || !from.Contains(address) || a.owners[address] != "" {
		address = a.free(from, owner)
	}
	a.owners[address], a.owned[owner] = owner, address
	return address.String()
}

// free is one that nobody has; which one hangs on the owner's name, so that a new process hardly ever gives it twice.
func (a *addresses) free(from netip.Prefix, owner string) netip.Addr {
	hash := fnv.New32a()
	hash.Write([]byte(owner))
	first, size := from.Addr().As4(), uint32(1)<<(32-from.Bits())
	for offset := hash.Sum32(); ; offset++ {
		var raw [4]byte
		binary.BigEndian.PutUint32(raw[:], binary.BigEndian.Uint32(first[:])+1+offset%(size-2))
		if address := netip.AddrFrom4(raw); a.owners[address] == "" {
			return address
		}
	}
}

// release frees the address of an owner that is gone.
func (a *addresses) release(owner string) {
	a.lock.Lock()
	defer a.lock.Unlock()
	delete(a.owners, a.owned[owner])
	delete(a.owned, owner)
}
