import type { SchemeReader } from '../auth/credential.ts'

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/**
 * Reads the token from Basic credentials (RFC 7617). The token is the password, or the user name if the password is empty or
 * `x-oauth-basic`. If both are empty, the client sent no credential: it probes whether one is required.
 */
export const readBasic: SchemeReader = (value) => {
  if (!BASE64.test(value)) return null
  const text = Buffer.from(value, 'base64').toString('utf8')
  const colon = text.indexOf(':')
  if (colon === -1) return null
  const [user, password] = [text.slice(0, colon), text.slice(colon + 1)]
  if (user === '' && password === '') return ''
  const token = password === '' || password === 'x-oauth-basic' ? user : password
  return token === '' ? null : token
}
