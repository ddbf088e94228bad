import { createHash, hash } from 'node:crypto'

/** A weak validator that follows from the body's bytes alone. */
export function etagOf(body: string | Buffer): string {
  return weak(hash('sha1', body, 'base64url'))
}

/** The same validator of a body that is given in parts. */
export function createEtag(): { update(part: Buffer): void; end(): string } {
  const digest = createHash('sha1')
  return {
    update: (part) => digest.update(part),
    end: () => weak(digest.digest('base64url')),
  }
}

function weak(digest: string): string {
  return `W/"${digest}"`
}

/**
 * Whether `If-None-Match` names the validator (RFC 9110, 13.1.2: weak comparison, lists, and `*`).
 *
 * @param header undefined when it was not sent
 */
export function matchesEtag(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  if (header === etag || header.trim() === '*') return true
  const wanted = etag.replace(/^W\//, '')
  return (header.match(/(?:W\/)?"[^"]*"/g) ?? []).some((tag) => tag.replace(/^W\//, '') === wanted)
}
