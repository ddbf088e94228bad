import type { Header, Reply } from './spec.ts'

/** Headers that the server sets on every response. */
const ON_EVERY_ANSWER = ['x-request-id', 'cache-control', 'vary', 'content-type', 'content-length', 'date']
/**
 * Headers that the server sets on responses with this status, which tests compare with each answer.
 */
export const HEADERS_BY_STATUS: Readonly<Record<number, string>> = {
  200: 'etag',
  304: 'etag',
  401: 'www-authenticate',
  429: 'retry-after',
  503: 'retry-after',
}

/** Returns the headers of a success that its handler sets, as opposed to the server. */
export function handlerHeaders(method: string, reply: Reply): Header[] {
  if (reply.status >= 300) return []
  return reply.headers.filter(({ name }) => !isServerHeader(method, reply.status, name))
}

/** Returns whether the server sets a header on responses with this status. */
export function isServerHeader(method: string, status: number, name: string): boolean {
  const lower = name.toLowerCase()
  if (lower === 'etag' && method !== 'GET') return false
  return ON_EVERY_ANSWER.includes(lower) || HEADERS_BY_STATUS[status] === lower
}
