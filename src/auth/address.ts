import ipaddr from 'ipaddr.js'
import { recently } from '../recently.ts'

type Range = ReturnType<typeof ipaddr.parseCIDR>

/** Addresses come again and again, and parsing one costs more than all else that is done with it. */
const ADDRESSES = 10_000

/** Proxies whose forwarding headers are believed. */
export type TrustedProxies = readonly Range[]

/** @throws Error when `text` is no CIDR; a single address stands for itself */
export function parseCidr(text: string): Range {
  if (text.includes('/')) return ipaddr.parseCIDR(text)
  const address = ipaddr.parse(text)
  return [address, address.kind() === 'ipv4' ? 32 : 128]
}

/** Says whether an address is one of the proxies'. */
export type IsTrusted = (address: string) => boolean

export function trust(proxies: TrustedProxies): IsTrusted {
  if (proxies.length === 0) return () => false
  return recently(ADDRESSES, (address) => {
    if (!ipaddr.isValid(address)) return false
    const parsed = ipaddr.process(address)
    return proxies.some(([range, bits]) => parsed.kind() === range.kind() && parsed.match(range, bits))
  })
}

/**
 * Address of the client itself: `X-Forwarded-For` is walked from the right past trusted proxies, and the first other
 * one is the client. At an entry that is no address it is the hop before.
 *
 * @param peer at the other end of the connection
 */
export function clientAddress(peer: string, forwardedFor: string | undefined, isTrusted: IsTrusted): string {
  let client = peer
  for (const entry of (forwardedFor ?? '').split(',').reverse()) {
    const address = entry.trim()
    if (!isTrusted(client) || !ipaddr.isValid(address)) break
    client = address
  }
  return client
}

/**
 * What failures are counted by: an IPv4 address, or the /64 of an IPv6 address, which is what one customer is given.
 * `::ffff:1.2.3.4` is `1.2.3.4`.
 */
export const addressKey = recently(ADDRESSES, (address: string): string => {
  if (!ipaddr.isValid(address)) return UNKNOWN_ADDRESS
  const parsed = ipaddr.process(address)
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString()
  const network = new ipaddr.IPv6([...parsed.parts.slice(0, 4), 0, 0, 0, 0])
  return `${network.toString()}/64`
})

/** What failures are counted by where the client's address cannot be told. */
export const UNKNOWN_ADDRESS = 'unknown'
