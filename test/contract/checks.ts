import { abuse } from './abuse/run.ts'
import { answers, unavailability } from './answers.ts'
import { branches } from './branches.ts'
import { history } from './history.ts'
import { privacy } from './privacy.ts'
import { queries } from './queries.ts'
import { commitIds, parameters, refusals } from './refusals.ts'
import { acceptance, allOfUnicode } from './reports.ts'
import type { Check } from './run.ts'
import { verdicts } from './verdicts.ts'

/** All checks except the one that locks the run out. */
export const checks: readonly Check[] = [
  answers,
  privacy,
  acceptance,
  refusals,
  parameters,
  commitIds,
  queries,
  verdicts,
  branches,
  history,
  allOfUnicode,
  abuse,
  unavailability,
]
