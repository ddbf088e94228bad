import { type BranchRule, flawsOfRule } from '../../domain/branch-rules.ts'
import { type Html, html } from '../parts/html.ts'

/** Renders what is wrong with a rule of an earlier version. */
export function ruleMarks(rule: BranchRule): Html[] {
  return flawsOfRule(rule).map((flaw) => html` <span class="faint">(${flaw})</span>`)
}
