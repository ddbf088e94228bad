/**
 * Returns whether `value` is a URL by the WHATWG standard with the scheme http or https, without
 * whitespace, control characters and lone surrogates.
 */
export function isHttpUrl(value: string): boolean {
  return /^https?:\/\//i.test(value) && !/[\p{White_Space}\p{Cc}\p{Cs}]/u.test(value) && URL.canParse(value)
}
