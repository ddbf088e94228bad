import { readFileSync } from 'node:fs'

/** Connections from a loopback address that the server has not closed. */
export function connectionsFrom(address: string, url: string): number {
  const hex = (number: number, digits: number) => number.toString(16).toUpperCase().padStart(digits, '0')
  const client = ` ${address
    .split('.')
    .toReversed()
    .map((byte) => hex(Number(byte), 2))
    .join('')}:`
  const server = `:${hex(Number(new URL(url).port), 4)}`
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n')
  return lines.filter((line) => {
    // sl, local address, remote address, state: 01 is an established connection, 08 one that the client has ended.
    const [, local = '', , state = ''] = line.trim().split(/\s+/)
    return local.endsWith(server) && line.includes(client) && (state === '01' || state === '08')
  }).length
}
