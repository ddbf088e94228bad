import { networkInterfaces } from 'node:os'
import { isTrusted, type TrustedProxies } from '../http/address.ts'
import { otherPeople } from '../util/accounts.ts'

/**
 * Returns the accounts of people on this machine, if connections from this machine count as those
 * of a trusted proxy. Such a person can name another address with each attempt to authenticate, so
 * that none of them is blocked.
 */
export function peopleBesideProxy(
  proxies: TrustedProxies,
  people = otherPeople(),
  interfaces = networkInterfaces,
): string[] {
  const isLocal =
    proxies.some(([network]) => network.range() === 'loopback') ||
    ownAddresses(interfaces).some((address) => isTrusted(address, proxies))
  return isLocal ? people : []
}

/** Returns the addresses of this machine, or only the loopback's where the system tells no others. */
function ownAddresses(interfaces: typeof networkInterfaces): string[] {
  try {
    return Object.values(interfaces()).flatMap((own = []) => own.map(({ address }) => address))
  } catch {
    // A unit of systemd allows this only with AF_NETLINK in RestrictAddressFamilies.
    return ['127.0.0.1', '::1']
  }
}
