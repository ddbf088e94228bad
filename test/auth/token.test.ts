import t from 'tap'
import { readCredential } from '../../src/auth/credential.ts'
import { createToken, hashToken, isToken, tokenPrefix } from '../../src/auth/token.ts'
import { headerValues } from '../../src/http/incoming.ts'

t.test('createToken', async (t) => {
  const tokens = Array.from({ length: 200 }, createToken)
  t.equal(new Set(tokens).size, tokens.length, 'unique')
  for (const token of tokens) t.match(token, /^cst_[0-9A-Za-z]{38}$/, 'prefix, random part and checksum')
  t.ok(tokens.every(isToken))
  // 32 characters from an alphabet of 62: more than the required 128 bits.
  t.ok(32 * Math.log2(62) >= 128)
  const used = new Set(tokens.flatMap((token) => [...token.slice(4, 36)]))
  t.equal(used.size, 62, 'uses the whole alphabet')
})

t.test('isToken detects typos', async (t) => {
  const token = createToken()
  const others = [
    '',
    'cst_',
    token.slice(0, -1),
    `${token}0`,
    token.replace('cst_', 'CST_'),
    token.replace('cst_', ''),
    `x${token}`,
    `${token}\n`,
    token.replace(/.$/, (char) => (char === 'a' ? 'b' : 'a')),
    `cst_${token[5]}${token[4]}${token.slice(6)}`,
  ]
  for (const other of others) if (other !== token) t.notOk(isToken(other), other.replaceAll(token, 'TOKEN'))
  for (let place = 4; place < token.length; place++) {
    const wrong = `${token.slice(0, place)}${token[place] === 'x' ? 'y' : 'x'}${token.slice(place + 1)}`
    t.notOk(isToken(wrong), `one wrong character at ${place}`)
  }
})

t.test('hashToken and tokenPrefix', async (t) => {
  const token = createToken()
  t.equal(
    hashToken('abc'),
    'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    'SHA-256 in hex',
  )
  t.equal(tokenPrefix(token), token.slice(0, 10))
})

const token = createToken()
const good = { kind: 'token', hash: hashToken(token) }
const none = { kind: 'none' }
const empty = { kind: 'bad', code: 'credential_empty', counts: false }
const malformed = { kind: 'bad', code: 'credential_malformed', counts: true }
const unknown = { kind: 'bad', code: 'credential_unknown', counts: true }

t.test('readCredential', async (t) => {
  const schemes = new Map(['bearer', 'token'].map((word) => [word, (value: string) => value]))
  const rows: [string, object, string[]][] = [
    ['no header', none, []],
    ['an empty header', none, ['']],
    ['Bearer', good, [`Bearer ${token}`]],
    ['token', good, [`token ${token}`]],
    ['bearer in any case', good, [`bEaReR ${token}`]],
    ['token in any case', good, [`TOKEN ${token}`]],
    ['several spaces', good, [`Bearer      ${token}`]],
    ['a scheme without a value', empty, ['Bearer']],
    ['another scheme', malformed, [`Basic ${token}`]],
    ['no scheme', malformed, [token]],
    ['a tab', malformed, [`Bearer\t${token}`]],
    ['two values', malformed, [`Bearer ${token} ${token}`]],
    ['a parameter', malformed, [`Bearer ${token}, x=y`]],
    ['two headers', malformed, [`Bearer ${token}`, `Bearer ${token}`]],
    ['two headers, one of them empty', malformed, ['', `Bearer ${token}`]],
    ['not in the form of a token', unknown, ['Bearer secret']],
    ['a wrong checksum', unknown, [`Bearer ${token.slice(0, -6)}000000`]],
  ]
  for (const [what, expected, values] of rows) {
    const rawHeaders = [
      'Host',
      'e.org',
      ...values.flatMap((value) => ['aUTHORIZATION', value]),
      'Accept',
      '*/*',
    ]
    t.same(readCredential(headerValues(rawHeaders, 'authorization'), schemes), expected, what)
  }
  const picky = new Map([['bearer', () => null]])
  t.same(readCredential([`Bearer ${token}`], picky), malformed, 'a value that the scheme rejects')
})
