import { hash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

/** Begins every token, so that people and secret scanners know one when they see it. */
const PREFIX = 'cst_'
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** 32 of 62 characters: 190 bits. */
const RANDOM = 32
const CHECKSUM = 6
/** The prefix, then the random part and the checksum. */
const FORM = /^cst_[0-9A-Za-z]{38}$/

/** A new personal access token. Only `hashToken` of it is ever stored. */
export function createToken(): string {
  const random = Array.from({ length: RANDOM }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')
  return PREFIX + random + checksum(random)
}

/** Whether `text` can be a token at all: its form and checksum are right. A typing error is found without the database. */
export function isToken(text: string): boolean {
  if (!FORM.test(text)) return false
  const random = text.slice(PREFIX.length, PREFIX.length + RANDOM)
  return text.endsWith(checksum(random))
}

/** SHA-256 in hex. Unsalted and fast on purpose: a token is random, so there is nothing to guess. */
export function hashToken(token: string): string {
  return hash('sha256', token)
}

/** What a token's owner knows it by again: enough to tell tokens apart, far too little to use one. */
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
