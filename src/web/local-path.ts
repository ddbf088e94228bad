const HERE = 'http://here.invalid'

/** The path that a visitor wanted to see, if it is one of this site; otherwise the start page. */
export function localPath(wanted: string | null | undefined): string {
  // Browsers take a backslash for a slash, and leave out tabs and line ends: `/\t/evil.example` is another host.
  if (!wanted?.startsWith('/') || /^\/[/\\]|[\p{Cc}\\]/u.test(wanted)) return '/'
  const url = URL.parse(wanted, HERE)
  // Without its dots, `/.//evil.example` is another host once more.
  return url?.origin === HERE && !url.pathname.startsWith('//') ? url.pathname + url.search : '/'
}
