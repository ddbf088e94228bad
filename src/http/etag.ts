import { hash } from 'node:crypto'

/** Returns a weak validator computed from the bytes of a body. */
export function etagOf(body: string | Buffer): string {
  return `W/"${hash('sha1', body, 'base64url')}"`
}

/** What proxies append to a validator when they compress the body: `"…-gzip"`, `"…;gzip"`. */
const CODING = /(?:--?|;)(?:gzip|br|zstd|deflate)"$/

/**
 * Returns whether `If-None-Match` contains the validator (RFC 9110, 13.1.2: weak comparison, lists,
 * and `*`), perhaps with the suffix of a proxy that compressed the body.
 */
export function matchesEtag(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  if (header === etag || header.trim() === '*') return true
  const wantedTag = etag.replace(/^W\//, '')
  return (header.match(/(?:W\/)?"[^"]*"/g) ?? []).some((sent) => {
    const tag = sent.replace(/^W\//, '')
    return tag === wantedTag || tag.replace(CODING, '"') === wantedTag
  })
}
