/**
 * Returns the target of the link with `rel="next"` in a `Link` header (RFC 8288); null if there is
 * none, or from there on if the header is malformed.
 */
export function nextLink(header: string | null): string | null {
  const text = header ?? ''
  let at = 0
  const skip = (characters: string) => {
    while (at < text.length && characters.includes(text.charAt(at))) at++
  }
  const until = (characters: string) => {
    const start = at
    while (at < text.length && !characters.includes(text.charAt(at))) at++
    return text.slice(start, at)
  }
  /** Reads a value, which may be quoted. */
  const value = () => {
    if (text[at] !== '"') return until(' \t;,')
    let quoted = ''
    for (at++; at < text.length && text[at] !== '"'; at++) {
      if (text[at] === '\\') at++
      quoted += text.charAt(at)
    }
    at++
    return quoted
  }

  for (;;) {
    skip(' \t,')
    if (text[at] !== '<') return null
    at++
    const target = until('>')
    at++
    let relations: string | undefined
    for (skip(' \t'); text[at] === ';'; skip(' \t')) {
      at++
      skip(' \t')
      const name = until(' \t=;,').toLowerCase()
      skip(' \t')
      let given = ''
      if (text[at] === '=') {
        at++
        skip(' \t')
        given = value()
      }
      // Only the first one counts.
      if (name === 'rel') relations ??= given
    }
    if (
      relations
        ?.toLowerCase()
        .split(/[ \t]+/)
        .includes('next')
    )
      return target
  }
}
