const HERE = 'http://here.invalid'

/** Returns the requested path if it belongs to this site, otherwise the start page. */
export function localPath(wanted: string | null | undefined): string {
  // Browsers treat a backslash as a slash and drop tabs and line breaks: `/\t/evil.example` is another host.
  if (!wanted?.startsWith('/') || /^\/[/\\]|[\p{Cc}\\]/u.test(wanted)) return '/'
  const url = URL.parse(wanted, HERE)
  // Normalized, `/.//evil.example` is another host as well.
  return url?.origin === HERE && !url.pathname.startsWith('//') ? url.pathname + url.search : '/'
}
