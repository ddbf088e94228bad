import t from 'tap'
import { localPath } from '../../src/web/pages/sign-in/sign-in-page.ts'

const LOCAL = {
  '/': '/',
  '/settings/tokens': '/settings/tokens',
  '/alice/rocket?after=a%2Fb': '/alice/rocket?after=a%2Fb',
  '/a//evil.example': '/a//evil.example',
  '/%2F/evil.example': '/%2F/evil.example',
  '/@evil.example': '/@evil.example',
  '/javascript:alert(1)': '/javascript:alert(1)',
  '/grün': '/gr%C3%BCn',
  '/page#part': '/page',
}

const ELSEWHERE = [
  null,
  undefined,
  '',
  'settings/tokens',
  'https://evil.example/',
  'HTTPS:evil.example',
  'javascript:alert(1)',
  'data:text/html,x',
  '//evil.example',
  '///evil.example',
  '/\\evil.example',
  '\\/evil.example',
  '\\\\evil.example',
  '/\t/evil.example',
  '/\n/evil.example',
  '\t//evil.example',
  ' //evil.example',
  '/.//evil.example',
  '/..//evil.example',
  '/%2e//evil.example',
  '/x/..//evil.example',
  '/x/%2E%2e//evil.example',
  '/x/..\\/evil.example',
  '/\r\nSet-Cookie: session=x',
  '/\u0000',
  '/\u0085',
]

t.test('keeps a path of this site', async (t) => {
  for (const [wanted, path] of Object.entries(LOCAL)) t.equal(localPath(wanted), path, wanted)
})

t.test('replaces anything else with the start page', async (t) => {
  for (const wanted of ELSEWHERE) t.equal(localPath(wanted), '/', JSON.stringify(wanted))
})
