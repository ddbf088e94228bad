import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import t from 'tap'
import { readJunit } from '../../src/cli/junit.ts'

const fixtures = resolve(import.meta.dirname, '../fixtures/junit')
const folder = mkdtempSync(join(tmpdir(), 'junit-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

/**
 * What is read of the files that test runners wrote about tests whose names and output hold
 * characters that XML forbids. Those of Gradle, nextest, Bazel and .NET are written after theirs.
 */
const expected: Record<string, string> = {
  bats: '1 of 2 failed: fails with ü & <b>',
  bazel: '1 of 1 failed: sample/fails_test',
  behave: '1 of 2 failed: fails with ü & <b>',
  catch2: '1 of 2 failed: fails with ü & <b> \\x1B[31mred',
  ctest: '1 of 2 failed: fails with ü & <b>',
  dotnet: '1 of 2 failed: Größe("ü & <b>")',
  'dotnet-utf-16': '1 of 2 failed: Größe("ü & <b>")',
  'go-junit-report': '2 of 3 failed: TestFails, TestFails/naïve_&_<b>\\x1b[31m',
  googletest: '1 of 2 failed: Fails',
  gotestsum: '2 of 3 failed: TestFails/naïve_&_<b>\\x1b[31m, TestFails',
  gradle: '1 of 3 failed: [2] text=naïve & <b>,  [31mred',
  'jest-junit': '1 of 2 failed: fails with ü & <b>  [31mred',
  latin1: '1 of 2 failed: Größe("ü & <b>")',
  'mocha-xunit': '1 of 2 failed: fails with ü & <b> red',
  nextest: '1 of 3 failed: tests::fails',
  'node-test': '1 of 2 failed: fails with ü & <b>  [31mred',
  nose2: '2 of 3 failed: test_errors, test_fails',
  phpunit: '2 of 3 failed: testFails with data set "a  [31mred", testFails with data set "naïve & <b>"',
  pytest:
    '4 of 5 failed: test_fails[a\\x1b[31mred], test_fails[na\\xefve & <b>], test_fails[tab\\tx], test_setup',
  robot: '1 of 2 failed: Fails with ü & <b>',
  rspec: '1 of 2 failed: Sample fails with ü & <b> \\e[31mred',
  surefire: '2 of 3 failed: errors, fails',
  'tap-formatter-junit': '1 of 2 failed: 2 - fails with [\\xc3][\\xbc] & <b> ^[[31mred',
  'unittest-xml-reporting': '2 of 3 failed: test_fails, test_errors',
  vitest: '1 of 2 failed: fails with ü & <b> red',
}

t.test('files of real test runners keep the names of their tests', async (t) => {
  for (const [name, description] of Object.entries(expected))
    t.equal((await readJunit([join(fixtures, `${name}.xml`)]))?.description, description, name)
  t.same(
    readdirSync(fixtures).sort(),
    Object.keys(expected)
      .map((name) => `${name}.xml`)
      .sort(),
  )
})

async function describe(content: string | Buffer): Promise<string | undefined> {
  const file = join(folder, 'a.xml')
  writeFileSync(file, content)
  return (await readJunit([file]))?.description
}
const failed = (name: string) => `<testcase name="${name}"><failure/></testcase>`
const document = (cases: string, encoding = 'UTF-8') =>
  `<?xml version="1.0" encoding="${encoding}"?><testsuite>${cases}</testsuite>`

t.test('what XML forbids becomes a space, and encodings are those that the file declares', async (t) => {
  const rows: [content: string | Buffer, description: string][] = [
    [document(failed('a\x00b\x1bc\ufffed')), 'a b c d'],
    [document(failed('a&#0;b&#x1B;c&#xFFFF;d&#55296;e&#9999999;f')), 'a b c d e f'],
    [document(failed('a&#65;&#x1F600;&amp;b')), 'aA😀&b'],
    [document(failed('a&nbsp;b & c')), 'a&nbsp;b & c'],
    [Buffer.from(document(failed('größe'), 'ISO-8859-1'), 'latin1'), 'größe'],
    [Buffer.from(document(failed('größe')), 'latin1'), 'gr\ufffd\ufffde'],
    [Buffer.from(document(failed('größe'), 'windows-1252'), 'latin1'), 'größe'],
    [Buffer.from(document(failed('größe'), 'utf-16'), 'utf16le'), 'größe'],
    [`\n  ${document(failed('late'))}`, 'late'],
    [`\ufeff${document(failed('marked'))}`, 'marked'],
    [document('<testcase name="" classname="com.example.Setup"><error/></testcase>'), 'com.example.Setup'],
  ]
  for (const [content, name] of rows) t.equal(await describe(content), `1 of 1 failed: ${name}`, name)
  const ignored = '<failure>of the suite</failure><system-out><![CDATA[&#27; \x1b]]></system-out>'
  t.equal(await describe(document(`<testcase name="a"/>${ignored}`)), '1 passed')
  t.equal(await describe(document('', 'klingon')), undefined, 'an unknown encoding')
})

t.test('a reference or a character may be anywhere in a large file', async (t) => {
  // Files are read in parts of 64 KiB.
  for (let before = 65_536 - 60; before < 65_536; before++) {
    const head = `${document('').replace('</testsuite>', '')}<testcase name="`
    const start = `${head.replace('<testsuite>', `<testsuite name="${'x'.repeat(before - head.length - 8)}">`)}`
    const name = (await describe(`${start}&#27;ü&#x1F600;"><failure/></testcase></testsuite>`)) ?? ''
    t.equal(name, '1 of 1 failed: ü😀', `${before}`)
  }
})
