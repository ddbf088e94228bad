/** Parts of a `User-Agent` and what they stand for. The first one counts: browsers also name those that they descend from. */
const BROWSERS = [
  ['Edg', 'Edge'],
  ['OPR/', 'Opera'],
  ['SamsungBrowser/', 'Samsung Internet'],
  ['Firefox/', 'Firefox'],
  ['FxiOS/', 'Firefox'],
  ['CriOS/', 'Chrome'],
  ['Chrome/', 'Chrome'],
  ['Safari/', 'Safari'],
  ['curl/', 'curl'],
] as const
const SYSTEMS = [
  ['Windows', 'Windows'],
  ['Android', 'Android'],
  ['iPhone', 'iPhone'],
  ['iPad', 'iPad'],
  ['Mac OS X', 'macOS'],
  ['CrOS', 'ChromeOS'],
  ['Linux', 'Linux'],
] as const

/** Returns the name of a browser for people: `Firefox on Linux`. Never contains text of the client. */
export function browserName(userAgent: string | null): string {
  const find = (names: readonly (readonly [part: string, name: string])[]) =>
    names.find(([part]) => userAgent?.includes(part))?.[1]
  const system = find(SYSTEMS)
  return `${find(BROWSERS) ?? 'Unknown browser'}${system ? ` on ${system}` : ''}`
}
