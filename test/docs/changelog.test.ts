import { existsSync, readdirSync } from 'node:fs'
import t from 'tap'
import { parse } from 'yaml'
import { readDocument } from './machine.ts'

const changelog = readDocument('CHANGELOG.md')
const [, ...sections] = changelog.split(/^## /m)
const releases = sections.flatMap((section) => {
  const [, version = '', date = ''] = /^\[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)\n/.exec(section) ?? []
  return version === '' ? [] : [{ version, date, section }]
})
const apiVersions = (text: string) =>
  [...text.matchAll(/version ([\d.]+) of openapi\.yaml/gi)].map(([, of]) => of)

t.test('CHANGELOG: what is unreleased, then dated releases, newest first', async (t) => {
  t.match(sections[0], /^\[Unreleased\]\n/)
  t.equal(releases.length, sections.length - 1, 'every other section is a release with a date')
  const descending = (texts: string[]) =>
    texts.toSorted((a, b) => b.localeCompare(a, 'en', { numeric: true }))
  for (const found of [releases.map(({ version }) => version), releases.map(({ date }) => date)])
    t.same(found, descending(found))
  t.equal(new Set(releases.map(({ version }) => version)).size, releases.length)
})

t.test('the packages have the version of the newest release', async (t) => {
  const { packages } = JSON.parse(readDocument('package-lock.json'))
  const versions = {
    server: JSON.parse(readDocument('package.json')).version,
    client: JSON.parse(readDocument('clients/typescript/package.json')).version,
    'server, locked': packages[''].version,
    'client, locked': packages['clients/typescript'].version,
    ...Object.fromEntries(
      [...readDocument('src/ops/README.md').matchAll(/commit-status-server-(\d+(?:\.\d+)*)/g)].map(
        ([file, version]) => [`guide: ${file}`, version],
      ),
    ),
  }
  for (const [where, version] of Object.entries(versions)) t.equal(version, releases[0]?.version, where)
})

t.test(
  'each release names the version of its contract, and former ones are kept to compare with',
  async (t) => {
    for (const { version, section } of releases) t.ok(apiVersions(section).length > 0, version)
    const [current, ...former] = new Set(apiVersions(changelog))
    t.equal(current, parse(readDocument('openapi.yaml')).info.version, 'the newest is that of openapi.yaml')
    for (const version of former)
      t.ok(existsSync(`test/contract/released/openapi-${version}.yaml`), `${version}`)
    const newest = readdirSync('test/contract/released').sort().at(-1)
    t.equal(newest, `openapi-${apiVersions(releases[0]?.section ?? '')[0]}.yaml`)
    const released = `test/contract/released/openapi-${current}.yaml`
    if (existsSync(released))
      t.equal(readDocument('openapi.yaml'), readDocument(released), 'a released contract does not change')
  },
)
