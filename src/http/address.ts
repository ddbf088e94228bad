import ipaddr from 'ipaddr.js'
import { boundedMemoize } from '../util/memoize.ts'

type Range = ReturnType<typeof ipaddr.parseCIDR>

/**
 * Number of parsed addresses to keep: most requests come from a known address, and parsing is the
 * costly part.
 */
const ADDRESSES = 10_000
/** Maximum length of an address in characters; enough for IPv6 with a zone. */
const MAX_LENGTH = 64

const parseShort = boundedMemoize(ADDRESSES, (text: string) =>
  ipaddr.isValid(text) ? ipaddr.process(text) : null,
)

/** Parses an address. Returns null for text that is not an address. */
function parseAddress(text: string): ReturnType<typeof parseShort> {
  return text.length > MAX_LENGTH ? null : parseShort(text)
}

/** Proxies whose forwarding headers are trusted. */
export type TrustedProxies = readonly Range[]

/** Parses a CIDR, or a single address as a range of one. @throws Error when `text` is neither */
export function parseCidr(text: string): Range {
  if (text.includes('/')) return ipaddr.parseCIDR(text)
  const address = ipaddr.parse(text)
  return [address, address.kind() === 'ipv4' ? 32 : 128]
}

/** Returns whether the address belongs to a trusted proxy. */
export function isTrusted(address: string, proxies: TrustedProxies): boolean {
  if (proxies.length === 0) return false
  const ip = parseAddress(address)
  if (ip === null) return false
  return proxies.some(([range, bits]) => ip.kind() === range.kind() && ip.match(range, bits))
}

/** The client of a request, according to the connection and trusted proxies. */
interface FoundClient {
  address: string
  /** The entry that the trusted proxy `address` wrote and that is not an address. */
  unreadable?: string
}

/**
 * Finds the address of the client itself. Walks `X-Forwarded-For` from the right, past trusted
 * proxies; the first other address is the client. Where an entry names nobody, as `unknown` does,
 * or is not an address, the hop before it is the client.
 *
 * @param peer address at the other end of the connection
 */
export function findClient(
  peer: string,
  forwardedFor: string | undefined,
  proxies: TrustedProxies,
): FoundClient {
  let address = peer
  for (const item of forwardedFor?.split(',').reverse() ?? []) {
    const entry = item.trim()
    if (!isTrusted(address, proxies) || entry === '' || /^"?unknown"?$/i.test(entry)) break
    // Copy the text: V8 would keep the whole header in memory for as long as a substring of it is
    // cached.
    const next = Buffer.from(withoutPort(entry), 'latin1').toString('latin1')
    if (parseAddress(next) === null) return { address, unreadable: entry.slice(0, MAX_LENGTH) }
    address = next
  }
  return { address }
}

/**
 * Returns an entry of `X-Forwarded-For` without quotes, brackets and port, which Azure, IIS and
 * HAProxy write: `1.2.3.4:5678`, `"[2001:db8::1]:443"`.
 */
function withoutPort(entry: string): string {
  const text = entry.replace(/^"([^"]*)"$/, '$1')
  const [, ipv6, ipv4] = /^(?:\[([^\]]*)\]|(\d+\.\d+\.\d+\.\d+))(?::\d{1,5})?$/.exec(text) ?? []
  return ipv6 ?? ipv4 ?? text
}

/**
 * Returns the key by which failures are counted: an IPv4 address, or the /64 of an IPv6 address,
 * since providers assign whole /64 networks. `::ffff:1.2.3.4` becomes `1.2.3.4`.
 */
export const addressKey = boundedMemoize(ADDRESSES, (address: string): string => {
  const ip = parseAddress(address)
  if (ip === null) return UNKNOWN_ADDRESS
  if (!(ip instanceof ipaddr.IPv6)) return ip.toString()
  const network = new ipaddr.IPv6([...ip.parts.slice(0, 4), 0, 0, 0, 0])
  return `${network.toString()}/64`
})

/** The key for clients whose address is unknown. */
export const UNKNOWN_ADDRESS = 'unknown'
