import { networkInterfaces } from 'node:os'
import { isTrusted, type TrustedProxies } from '../http/address.ts'
import { otherPeople } from '../util/accounts.ts'

/**
 * Returns the accounts of people on this machine, if connections from this machine count as those
 * of a trusted proxy. Such a person can name another address with each attempt to authenticate, so
 * that none of them is blocked.
 */
export function peopleBesideProxy(proxies: TrustedProxies, people = otherPeople()): string[] {
  const own = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses)
  const isLocal =
    proxies.some(([network]) => network.range() === 'loopback') ||
    own.some(({ address }) => isTrusted(address, proxies))
  return isLocal ? people : []
}
