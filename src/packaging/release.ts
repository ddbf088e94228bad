import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'

/**
 * Makes the tree a release: `npm run release -- VERSION` dates the section "Unreleased" of
 * CHANGELOG, gives the packages and the operator's guide the version, and keeps openapi.yaml for
 * comparison. It changes nothing unless the tree is clean and `npm run check` succeeds.
 */
/** What is before the version of a package of this project, in its manifest and in the lock file. */
const OWN_VERSIONS = ['commit-status-server', '@commit-status/client'].flatMap((name) =>
  ['  ', '      '].map((indentation) => `"name": "${name}",\n${indentation}"version": `),
)
const [version = '', ...others] = process.argv.slice(2)
const read = (path: string) => readFileSync(path, 'utf8')
const changelog = read('CHANGELOG.md')
const contract = read('openapi.yaml')
const [, former = ''] = /^## \[(\d.*?)\]/m.exec(changelog) ?? []
const [, unreleased = ''] = changelog.split(/^## .*/m)
const [, contractVersion = ''] = /^ {2}version: (\S+)$/m.exec(contract) ?? []
const keptContract = `test/contract/released/openapi-${contractVersion}.yaml`

const problem = findProblem()
if (problem === null) {
  release()
  process.stdout.write(
    `Version ${version} with version ${contractVersion} of openapi.yaml. Run "npm ci && npm test" and commit everything.\n`,
  )
} else {
  process.stderr.write(`${problem}\n`)
  process.exitCode = 1
}

/** Returns why the tree cannot be released, or null. */
function findProblem(): string | null {
  if (!/^\d+\.\d+\.\d+$/.test(version) || others.length > 0)
    return `"${process.argv.slice(2).join(' ')}" is not a version (expected for example 1.2.3): npm run release -- VERSION`
  if (version.localeCompare(former, 'en', { numeric: true }) <= 0)
    return `${version} is not newer than ${former}, the newest release in CHANGELOG.md`
  if (!/^- /m.test(unreleased))
    return 'CHANGELOG.md lists nothing below "Unreleased". Describe what changed for users.'
  if (!unreleased.includes(`\nVersion ${contractVersion} of openapi.yaml.\n`))
    return `CHANGELOG.md does not say "Version ${contractVersion} of openapi.yaml." below "Unreleased".`
  if (existsSync(keptContract) && read(keptContract) !== contract)
    return `openapi.yaml differs from version ${contractVersion} as released in ${keptContract}. Raise its version.`
  const changes = execFileSync('git', ['status', '--porcelain'], { encoding: 'utf8' })
  if (changes !== '') return `Commit or remove these changes first:\n${changes.trimEnd()}`
  const { status } = spawnSync('npm', ['run', '--silent', 'check'], { stdio: 'inherit' })
  return status === 0 ? null : '"npm run check" failed. Correct what it found.'
}

function release(): void {
  const date = new Date().toISOString().slice(0, 10)
  writeFileSync(
    'CHANGELOG.md',
    changelog.replace('## [Unreleased]\n', () => `## [Unreleased]\n\n## [${version}] - ${date}\n`),
  )
  writeFileSync(keptContract, contract)
  for (const path of ['package.json', 'clients/typescript/package.json', 'package-lock.json'])
    writeFileSync(
      path,
      OWN_VERSIONS.reduce(
        (text, start) => text.replaceAll(`${start}"${former}"`, `${start}"${version}"`),
        read(path),
      ),
    )
  const guide = 'src/ops/README.md'
  writeFileSync(
    guide,
    read(guide).replaceAll(`commit-status-server-${former}`, `commit-status-server-${version}`),
  )
}
