import type { SchemeReader } from '../auth/credential.ts'

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/**
 * Takes the token out of Basic credentials (RFC 7617): it is the password, whatever the user name, or the user name where
 * the password is empty or `x-oauth-basic`. Without both, nothing was offered: so a client asks whether it must.
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
