/** A URL by the WHATWG standard with the scheme http or https, without white space or control characters. */
export function isHttpUrl(value: string): boolean {
  return /^https?:\/\//i.test(value) && !/[\p{White_Space}\p{Cc}]/u.test(value) && URL.canParse(value)
}
