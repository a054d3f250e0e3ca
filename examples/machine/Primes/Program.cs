// SPDX-License-Identifier: MIT
//
// Counts primes until it is killed. Most of its time passes in one function.

using System.Runtime.CompilerServices;

static class Program
{
	static int primes;

	[MethodImpl(MethodImplOptions.NoInlining)]
	static bool IsPrime(uint number)
	{
		for (uint divisor = 2; divisor * divisor <= number; divisor++)
			if (number % divisor == 0)
				return false;
		return number > 1;
	}

	static void Main()
	{
		for (var number = 1000000u; ; number++)
			primes += IsPrime(number) ? 1 : 0;
	}
}
