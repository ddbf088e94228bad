/**
 * Returns the values of a header, one for each time it was sent. Node's parsed headers join them, or drop all but one.
 *
 * @param rawHeaders names and values, alternating
 * @param name in lower case
 */
export function headerValues(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = []
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const sent = rawHeaders[index]
    // Comparing lengths first avoids a lower-case copy of nearly every name.
    if (sent?.length === name.length && sent.toLowerCase() === name) values.push(rawHeaders[index + 1] ?? '')
  }
  return values
}
