import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'
import tap from 'tap'
import { parse } from 'yaml'
import { parseEnvironmentFile } from '../../src/cli/parts/environment-file.ts'
import { describeVariables, readConfig } from '../../src/config.ts'
import { entries, object } from '../contract/json.ts'
import { codeBlocks, createMachine, type Machine, readDocument } from '../docs/machine.ts'
import { createPostgresDatabase } from '../helpers/databases.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'

/**
 * Does everything that the operator's guide says, from its beginning to its end, as an operator
 * would.
 */
const document = object(parse(readDocument('openapi.yaml')), 'openapi.yaml')
const defaultOf = (name: string) => describeVariables().find((row) => row.name === name)?.default ?? ''
/** The beginning of a token that leaked, which is another one here. */
const EXAMPLE = 'cst_4fG7hJ'
tap.setTimeout(900_000)
await provideDatabases(tap)

tap.test('every block of code runs, or is valid', async (t) => {
  const machine = await createMachine(t)
  const databaseUrl = await createPostgresDatabase(t)
  const guide = readDocument('src/ops/README.md')
  const listTokens = () => machine.sh('admin token list alice')
  let tokens = ''
  const checks: Record<string, (code: string) => unknown> = {
    async sh(code) {
      await runAsOperator(machine, code.replace(/(?<='DATABASE_URL=)[^']+/, databaseUrl))
      const template = join(machine.folder, 'commit-status@.service')
      if (code.includes(template))
        checkUnit(machine, readFileSync(template, 'utf8'), 'commit-status@.service')
      const settings = () => readFileSync(join(machine.folder, 'commit-status.env'), 'utf8')
      if (code.includes("'DATABASE_URL=")) t.match(settings(), /^DATABASE_URL=/m)
      if (code.includes('/^DATABASE_URL')) t.notMatch(settings(), /^DATABASE_URL/m)
      if (code.includes('admin restore')) t.equal(await listTokens(), tokens, 'what was restored')
      if (/admin (token create|backup)/.test(code)) tokens = await listTokens()
    },
    // It needs users, or containers, of its own.
    shell(code) {
      const { status, stderr } = spawnSync('sh', ['-n'], { input: code, encoding: 'utf8' })
      t.equal(status, 0, stderr)
    },
    env(code) {
      const values = parseEnvironmentFile(code)
      t.same(
        Object.keys(values).filter((name) => !describeVariables().some((row) => row.name === name)),
        [],
      )
      t.doesNotThrow(() => readConfig(values))
      writeFileSync(join(machine.folder, 'commit-status.env'), code)
    },
    dotenv(code) {
      for (const line of code.trim().split('\n'))
        t.throws(
          () => readConfig(parseEnvironmentFile(line)),
          { message: /ENOENT.*'\/etc\/ssl\/[\w-]+\.pem'/ },
          line,
        )
    },
    ini: (code) => checkUnit(machine, code),
    nginx(code) {
      t.equal(count(code, '{'), count(code, '}'))
      for (const name of ['proxy_read_timeout', 'proxy_send_timeout'])
        t.match(code, `${name} ${defaultOf('GIT_TIMEOUT')}s;`)
      t.match(code, `server 127.0.0.1:${new URL(machine.url).port} `)
      for (const [, json = ''] of code.matchAll(/return \d+ '(.*)';/g))
        t.ok(exampleTexts().includes(JSON.parse(json).error), json)
    },
    caddyfile(code) {
      t.equal(count(code, '{'), count(code, '}'))
      t.match(code, `response_header_timeout ${defaultOf('GIT_TIMEOUT')}s`)
      for (const [, json = ''] of code.matchAll(/respond `(.*)`/g))
        t.ok(exampleTexts().includes(JSON.parse(json).error), json)
    },
    async cron(code) {
      const [, command = ''] = /^(?:[\d*]+ ){5}commit-status (.*)\n$/.exec(code) ?? []
      t.match(
        await machine.sh(`${command.replaceAll('\\%', '%')}; ls ${machine.folder}/backups`),
        /^\d{6}-\w+\.manifest$/m,
      )
    },
    async postgresql(code) {
      const client = new Client({ connectionString: process.env.TEST_DATABASE_URL })
      await client.connect()
      for (const [, name = ''] of code.matchAll(/^(\w+) = /gm)) {
        const { rowCount } = await client.query('select from pg_settings where name = $1', [name])
        t.equal(rowCount, 1, name)
      }
      await client.end()
    },
    async yaml(code) {
      const headers = { authorization: `Bearer ${/Bearer ([\w-]+)/.exec(guide)?.[1]}` }
      const metrics = await (await fetch(`${machine.url}/metrics`, { headers })).text()
      // The rest of the configuration is for `npm run soak -- monitoring`.
      const { groups, scrape_configs: jobs = [] } = parse(code)
      for (const { job_name: name } of jobs) t.match(guide, `up{job="${name}"}`)
      for (const { alert, expr } of groups?.[0].rules ?? []) {
        const names: string[] = expr.match(/\bcommit_status_\w+/g) ?? []
        for (const name of names) t.match(metrics, new RegExp(`^${name}[{ ]`, 'm'), alert)
      }
    },
  }
  for (const { language, code } of codeBlocks(guide)) {
    t.type(checks[language], 'function', `blocks of ${language} are checked`)
    await checks[language]?.(machine.localize(code))
  }

  function checkUnit({ folder }: Machine, unit: string, service = 'commit-status.service'): void {
    const isService = unit.includes('WantedBy=multi-user.target')
    const backup = unit.includes('[Timer]') ? 'backup.timer' : 'backup.service'
    const file = join(folder, isService ? service : `commit-status-${backup}`)
    writeFileSync(file, unit)
    const security = [['security', '--offline=true', '--threshold=30', '--no-pager']]
    for (const args of [['verify'], ...(isService ? security : [])]) {
      const { error, status, stdout, stderr } = spawnSync('systemd-analyze', [...args, file], {
        encoding: 'utf8',
      })
      // A machine without systemd serves no unit.
      if (error) continue
      t.equal(status, 0, `${args[0]}: ${stdout}${stderr}`)
    }
  }
})

/** Runs a block of the guide, after what it presupposes has happened. */
async function runAsOperator(machine: Machine, code: string): Promise<void> {
  const [, blocked] = /blocked lift (\S+)/.exec(code) ?? []
  if (blocked) {
    const headers = { authorization: 'Bearer wrong', 'x-forwarded-for': blocked }
    const path = `/api/v1/repos/alice/rocket/commits/${'0'.repeat(40)}/statuses`
    await Promise.all(Array.from({ length: 30 }, () => fetch(machine.url + path, { headers })))
  }
  if (code.includes('chown --recursive'))
    await machine.sh(`systemctl stop commit-status; rm -r ${machine.folder}/data`)
  let beginning = ''
  if (code.includes('leaked.txt')) {
    const create = 'admin token create alice --name'
    await machine.sh(`${create} text >leaked.txt; ${create} nightly`)
    beginning = (await machine.sh(`${create} beginning`)).slice(0, EXAMPLE.length)
  }
  await machine.sh(code.replace(EXAMPLE, beginning))
}

function count(text: string, character: string): number {
  return text.split(character).length - 1
}

/** Returns the texts of all examples of errors. */
function exampleTexts(): unknown[] {
  return entries(object(document.components, 'components').responses).flatMap(([name, response]) => {
    const content = object(object(response, name).content, name)
    const examples = entries(object(content['application/json'], name).examples)
    return examples.map(([key, example]) => object(object(example, key).value, key).error)
  })
}
