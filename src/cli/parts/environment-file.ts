/**
 * Reads the text of a file as systemd reads its `EnvironmentFile` (systemd.exec(5)), so that a
 * command gets the values of the service: `#` and quotes within a value stay, `\` keeps the next
 * character, and lines without `=` are ignored.
 */
export function parseEnvironmentFile(text: string): Record<string, string> {
  const values: Record<string, string> = {}
  let rest = text
  const take = (pattern: RegExp): string => {
    const [match = ''] = pattern.exec(rest) ?? []
    rest = rest.slice(match.length)
    return match
  }
  while (rest !== '') {
    take(/^[ \t\r\n]+/)
    if (take(/^[#;][^\r\n]*/)) continue
    const name = take(/^[^=\r\n]*/).trimEnd()
    if (!take(/^=/)) continue
    values[name] = takeValue(take)
  }
  return values
}

/** Takes quoted parts, and then the rest of the line, in which quotes have no meaning. */
function takeValue(take: (pattern: RegExp) => string): string {
  let value = ''
  for (;;) {
    take(/^[ \t]+/)
    const single = take(/^'[^']*'?/)
    const double = single ? '' : take(/^"(?:[^"\\]|\\.)*"?/s)
    if (!single && !double) break
    value += single.replaceAll("'", '') + double.replace(/\\\n|\\(["\\`$])|"/g, '$1')
  }
  const unquoted = take(/^(?:[ \t]*(?:[^ \t\r\n\\]|\\.))*/s)
  return value + unquoted.replace(/\\[\r\n]|\\(.)/g, '$1')
}
