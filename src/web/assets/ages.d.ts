// Ages are rendered by the server, and kept up to date by the script of the pages.
export function durationInWords(seconds: number): string
export function timeInWords(seconds: number): string
export function exactTime(iso: string): string
export function ageInWords(seconds: number): string | null
