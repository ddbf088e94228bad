import { hash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

/** Prefix of every token, recognizable to people and secret scanners. */
export const PREFIX = 'cst_'
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** 32 characters from an alphabet of 62: 190 bits. */
const RANDOM = 32
const CHECKSUM = 6
/** Prefix, random part and checksum. */
const FORM = /^cst_[0-9A-Za-z]{38}$/

/** Creates a personal access token. Store only its `hashToken`. */
export function createToken(): string {
  const random = Array.from({ length: RANDOM }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')
  return PREFIX + random + checksum(random)
}

/**
 * Returns whether `text` has the form and checksum of a token. Detects typos without the database.
 */
export function isToken(text: string): boolean {
  if (!FORM.test(text)) return false
  const random = text.slice(PREFIX.length, PREFIX.length + RANDOM)
  return text.endsWith(checksum(random))
}

/**
 * Returns the SHA-256 of a token in hex. Needs no salt and no slow hash, since tokens are random.
 */
export function hashToken(token: string): string {
  return hash('sha256', token)
}

/**
 * Returns the first characters of a token, by which its owner recognizes it; far too few to guess
 * the rest.
 */
export function tokenPrefix(token: string): string {
  return token.slice(0, PREFIX.length + 6)
}

function checksum(text: string): string {
  let rest = crc32(text)
  let digits = ''
  for (let place = 0; place < CHECKSUM; place++) {
    digits = ALPHABET.charAt(rest % ALPHABET.length) + digits
    rest = Math.floor(rest / ALPHABET.length)
  }
  return digits
}
