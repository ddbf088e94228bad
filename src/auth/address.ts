import ipaddr from 'ipaddr.js'
import { boundedMemoize } from '../util/bounded-memoize.ts'

type Range = ReturnType<typeof ipaddr.parseCIDR>

/** Addresses come again and again, and parsing one costs more than all else that is done with it. */
const ADDRESSES = 10_000
/** Characters of an IPv6 address with a zone. */
const LONGEST = 64

const parseShort = boundedMemoize(ADDRESSES, (text: string) =>
  ipaddr.isValid(text) ? ipaddr.process(text) : null,
)

/** null: no address. */
function parse(text: string): ReturnType<typeof parseShort> {
  return text.length > LONGEST ? null : parseShort(text)
}

/** Proxies whose forwarding headers are believed. */
export type TrustedProxies = readonly Range[]

/** @throws Error when `text` is no CIDR; a single address stands for itself */
export function parseCidr(text: string): Range {
  if (text.includes('/')) return ipaddr.parseCIDR(text)
  const address = ipaddr.parse(text)
  return [address, address.kind() === 'ipv4' ? 32 : 128]
}

/** Whether the address is one of the proxies'. */
export function isTrusted(address: string, proxies: TrustedProxies): boolean {
  if (proxies.length === 0) return false
  const parsed = parse(address)
  if (parsed === null) return false
  return proxies.some(([range, bits]) => parsed.kind() === range.kind() && parsed.match(range, bits))
}

/**
 * Address of the client itself: `X-Forwarded-For` is walked from the right past trusted proxies, and the first other
 * one is the client. At an entry that is no address it is the hop before.
 *
 * @param peer at the other end of the connection
 */
export function clientAddress(
  peer: string,
  forwardedFor: string | undefined,
  proxies: TrustedProxies,
): string {
  let client = peer
  for (const entry of forwardedFor?.split(',').reverse() ?? []) {
    // A copy: as a part of the header it would keep all of it in memory for as long as it is remembered.
    const address = Buffer.from(entry.trim(), 'latin1').toString('latin1')
    if (!isTrusted(client, proxies) || parse(address) === null) break
    client = address
  }
  return client
}

/**
 * What failures are counted by: an IPv4 address, or the /64 of an IPv6 address, which is what one customer is given.
 * `::ffff:1.2.3.4` is `1.2.3.4`.
 */
export const addressKey = boundedMemoize(ADDRESSES, (address: string): string => {
  const parsed = parse(address)
  if (parsed === null) return UNKNOWN_ADDRESS
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString()
  const network = new ipaddr.IPv6([...parsed.parts.slice(0, 4), 0, 0, 0, 0])
  return `${network.toString()}/64`
})

/** What failures are counted by where the client's address cannot be told. */
export const UNKNOWN_ADDRESS = 'unknown'
