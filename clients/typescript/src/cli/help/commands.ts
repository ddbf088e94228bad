import { operations } from '../../generated/operations.ts'
import type { branchesOptions } from '../branches.ts'
import type { gateOptions } from '../gate.ts'
import type { getOptions } from '../get.ts'
import type { landOptions } from '../land/land.ts'
import type { lastPassedOptions } from '../last-passed.ts'
import type { reportOptions, TextOption } from '../report.ts'
import type { runOptions } from '../run.ts'
import type { waitOptions } from '../wait.ts'
import type { workOptions } from '../work/options.ts'

/** The value of an option, empty for none, and what the option does. */
type OptionHelp = readonly [value: string, meaning: string]

export interface CommandHelp {
  /** What follows `commit-status`. */
  usage: string
  summary: string
  /** More sentences. */
  details?: string
  options: Readonly<Record<string, OptionHelp>>
  /** Arguments of the command. */
  example: string
  /** What completion offers as arguments. */
  words?: readonly string[]
}

const target = {
  repo: ['OWNER/NAME', 'repository; by default that of the CI system or the git checkout'],
  sha: ['COMMIT', 'full commit id, or what git resolves to one in this checkout'],
  url: ['BASE', 'address of the service, instead of COMMIT_STATUS_URL'],
} as const
const context = ['NAME', 'name of the check; required where the CI system does not name the job'] as const
const targetUrl = ['URL', 'link to the job, empty for none; by default from the CI system'] as const
const waitForCommit = [
  'TIME',
  'ask again for a commit that a mirror has not brought yet, 0s by default',
] as const
const junit = ['FILE…', 'describe the test results in JUnit files'] as const
const json = ['', 'print JSON'] as const
const checkRun = {
  run: ['ID', 'pipeline and attempt of the report, as in 5-2; an older one then replaces no newer one'],
  began: [
    'TIME',
    'when it began by the CI system: seconds since 1970, or 2026-01-31T12:00:00Z; now by default',
  ],
} as const
/** What is said of a text field of the contract that has no line of its own below. */
const textFields = Object.fromEntries(
  Object.keys(operations.reportStatus.maxLength).map((field) => [
    field.replaceAll('_', '-'),
    ['TEXT', `${field} of the status`] as const,
  ]),
  // `Object.fromEntries` has types for any names; these are those of the options of `report`.
) as Record<TextOption, OptionHelp>
const STATES = operations.reportStatus.values.state.join(', ')

export const commandHelp = {
  report: {
    usage: 'report --state STATE [OPTION…]',
    summary: 'report the result of a check',
    options: {
      state: ['STATE', `one of ${STATES}`],
      ...textFields,
      context,
      description: ['TEXT', 'what to show beside the state'],
      ...checkRun,
      truncate: ['', `cut the description after ${operations.reportStatus.maxLength.description} characters`],
      junit,
      'target-url': targetUrl,
      'wait-for-commit': waitForCommit,
      json,
      ...target,
    } satisfies Record<keyof typeof reportOptions, OptionHelp>,
    example: "report --state success --context ci/lint --description 'No complaints'",
  },
  run: {
    usage: 'run [OPTION…] -- COMMAND…',
    summary: 'run a command, and report how it ends',
    details:
      'Reports pending, runs COMMAND without COMMIT_STATUS_TOKEN in its environment, reports success, failure or\nerror, and ends with the exit code of COMMAND.',
    options: {
      context,
      junit,
      strict: ['', 'end with 5, or 2, if the report of a command that succeeded is not stored'],
      clean: ['', 'refuse a checkout that differs from the commit'],
      'pass-token': ['', 'leave COMMIT_STATUS_TOKEN in the environment of COMMAND'],
      ...checkRun,
      'target-url': targetUrl,
      'wait-for-commit': waitForCommit,
      ...target,
    } satisfies Record<keyof typeof runOptions, OptionHelp>,
    example: 'run --context ci/test --junit report.xml -- npm test',
  },
  work: {
    usage: 'work --repo OWNER/NAME --context NAME [OPTION…] -- COMMAND…',
    summary: 'run a command on each newest commit that has no result, and report it',
    details:
      'Asks for branches whose newest commit has no result of the check, claims one, and runs COMMAND in a clean\ncheckout. Several workers share the work. Whoever may push to a branch runs code as the user of this command.',
    options: {
      repo: ['OWNER/NAME', 'repository; once for each'],
      context: ['NAME', 'required: name of the check, which only workers report'],
      match: ['PATTERN', 'only branches whose names match, where * stands for any characters'],
      every: ['TIME', 'pause between two questions, 5s by default'],
      jobs: ['NUMBER', 'commands that run at a time, 1 by default'],
      'max-age': [
        'TIME',
        'leave older commits alone unless their check is pending or they are landed, 7d by default',
      ],
      junit,
      once: ['', 'end when nothing is to do; with 1 if a command failed'],
      cancel: ['', 'end a command when its branch has moved on'],
      logs: ['DIR', 'also write the output of each command to a file there'],
      'log-url': ['TEMPLATE', 'link of the status: a URL in which {log} stands for that file'],
      keep: ['NUMBER', 'logs of each repository that are kept, 20 by default'],
      folder: ['DIR', 'caches and checkouts; only one worker can use a folder'],
      url: target.url,
    } satisfies Record<keyof typeof workOptions, OptionHelp>,
    example: 'work --repo alice/rocket --context ci/all -- ./ci.sh',
  },
  get: {
    usage: 'get [COMMIT] [OPTION…]',
    summary: 'show the statuses of a commit',
    options: { json, ...target } satisfies Record<keyof typeof getOptions, OptionHelp>,
    example: 'get HEAD~1',
  },
  wait: {
    usage: 'wait [COMMIT] [OPTION…]',
    summary: 'wait until the checks of a commit decide',
    details: 'In a PATTERN, * stands for any characters.',
    options: {
      require: ['PATTERN…', 'contexts, each of which must match one that has reported'],
      only: ['', 'ignore contexts that no PATTERN matches'],
      branch: ['NAME', 'wait for what the rules of a branch require instead'],
      onto: ['NAME', 'the same as --branch'],
      'allow-no-rules': ['', 'with --branch: all contexts count if no rule matches'],
      settle: ['TIME', 'how long nothing new may have been reported, 10s by default'],
      stalled: ['TIME', 'end when a pending report is older than that'],
      timeout: ['TIME', 'longest time to wait, 10m by default'],
      interval: ['TIME', 'pause between two reads, 1s by default; longer after half a minute'],
      'wait-for-commit': waitForCommit,
      events: ['', 'print one line for each change of a check'],
      json,
      ...target,
    } satisfies Record<keyof typeof waitOptions, OptionHelp>,
    example: 'wait --only --require ci/build ci/test --timeout 30m',
  },
  'last-passed': {
    usage: 'last-passed --branch NAME [OPTION…]',
    summary: 'print the last commit of a branch that passed its required checks',
    details: 'Looks at 300 commits that the branch was at. In a PATTERN, * stands for any characters.',
    options: {
      branch: ['NAME', 'required: branch whose commits to look at'],
      require: ['PATTERN…', 'contexts that are required beside those of the rules of the branch'],
      unless: ['CONTEXT', 'pass over commits on which this context failed, such as a deployment'],
      after: ['COMMIT', 'begin after this commit, by any name that git accepts'],
      json,
      repo: target.repo,
      url: target.url,
    } satisfies Record<keyof typeof lastPassedOptions, OptionHelp>,
    example: 'last-passed --branch main',
  },
  branches: {
    usage: 'branches [OPTION…]',
    summary: 'list branches, and what their newest commits have passed',
    options: {
      match: ['PATTERN', 'only branches whose names match, where * stands for any characters'],
      verdict: ['VERDICT', 'only those with this verdict: success, pending or failure'],
      json,
      repo: target.repo,
      url: target.url,
    } satisfies Record<keyof typeof branchesOptions, OptionHelp>,
    example: "branches --match 'release/*' --verdict failure",
  },
  land: {
    usage: 'land [COMMIT] [OPTION…]',
    summary: 'merge a commit into a branch of the server once the merge has passed its checks',
    options: {
      onto: ['BRANCH', 'branch of the server, main by default'],
      branch: ['BRANCH', 'the same as --onto'],
      timeout: ['TIME', 'longest time to wait, 30m by default'],
      json,
      ...target,
    } satisfies Record<keyof typeof landOptions, OptionHelp>,
    example: 'land HEAD --onto main',
  },
  gate: {
    usage: 'gate --branch-rules [REF OLD NEW]',
    summary: 'as a pre-receive or update hook, refuse what the branch rules do not allow',
    options: {
      'branch-rules': ['', 'required: ask for the rules of the branches'],
      repo: target.repo,
      url: target.url,
    } satisfies Record<keyof typeof gateOptions, OptionHelp>,
    example: 'gate --branch-rules --repo acme/rocket',
  },
  completion: {
    usage: 'completion SHELL',
    summary: 'print a script by which bash, zsh or fish completes commands and options',
    options: {},
    example: 'completion bash > /etc/bash_completion.d/commit-status',
    words: ['bash', 'zsh', 'fish'],
  },
} as const satisfies Record<string, CommandHelp>

/** Returns the help of a command; undefined if there is no such command. */
export function helpFor(name: string): CommandHelp | undefined {
  return Object.entries(commandHelp).find(([command]) => command === name)?.[1]
}
