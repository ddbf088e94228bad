/** The bytes of a request, or of its beginning where the body is shorter than `length`. */
export function bytesOf(
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body = '',
  length = body.length,
): string {
  const lines = Object.entries({
    host: 'test',
    ...headers,
    ...(length > 0 && { 'content-length': `${length}` }),
  })
  return `${[`${method} ${path} HTTP/1.1`, ...lines.map(([name, value]) => `${name}: ${value}`)].join('\r\n')}\r\n\r\n${body}`
}

/** The bytes of a request for all that leads to a commit. */
export function cloneBytes(repository: string, commit: string): string {
  const headers = { 'content-type': 'application/x-git-upload-pack-request' }
  return bytesOf('POST', `/${repository}.git/git-upload-pack`, headers, `0032want ${commit}\n00000009done\n`)
}
