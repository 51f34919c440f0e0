/* The predefined types of MPI-4.1 (tables 3.1 to 3.3 and 5.9.4) that an MPI has: generated, one a
 * line. */
#ifdef MPI_CHAR
ADD(MPI_CHAR, 'i', ' ')
#endif
#ifdef MPI_SIGNED_CHAR
ADD(MPI_SIGNED_CHAR, 'i', ' ')
#endif
#ifdef MPI_UNSIGNED_CHAR
ADD(MPI_UNSIGNED_CHAR, 'u', ' ')
#endif
#ifdef MPI_SHORT
ADD(MPI_SHORT, 'i', ' ')
#endif
#ifdef MPI_UNSIGNED_SHORT
ADD(MPI_UNSIGNED_SHORT, 'u', ' ')
#endif
#ifdef MPI_INT
ADD(MPI_INT, 'i', ' ')
#endif
#ifdef MPI_UNSIGNED
ADD(MPI_UNSIGNED, 'u', ' ')
#endif
#ifdef MPI_LONG
ADD(MPI_LONG, 'i', ' ')
#endif
#ifdef MPI_UNSIGNED_LONG
ADD(MPI_UNSIGNED_LONG, 'u', ' ')
#endif
#ifdef MPI_LONG_LONG
ADD(MPI_LONG_LONG, 'i', ' ')
#endif
#ifdef MPI_LONG_LONG_INT
ADD(MPI_LONG_LONG_INT, 'i', ' ')
#endif
#ifdef MPI_UNSIGNED_LONG_LONG
ADD(MPI_UNSIGNED_LONG_LONG, 'u', ' ')
#endif
#ifdef MPI_INT8_T
ADD(MPI_INT8_T, 'i', ' ')
#endif
#ifdef MPI_INT16_T
ADD(MPI_INT16_T, 'i', ' ')
#endif
#ifdef MPI_INT32_T
ADD(MPI_INT32_T, 'i', ' ')
#endif
#ifdef MPI_INT64_T
ADD(MPI_INT64_T, 'i', ' ')
#endif
#ifdef MPI_UINT8_T
ADD(MPI_UINT8_T, 'u', ' ')
#endif
#ifdef MPI_UINT16_T
ADD(MPI_UINT16_T, 'u', ' ')
#endif
#ifdef MPI_UINT32_T
ADD(MPI_UINT32_T, 'u', ' ')
#endif
#ifdef MPI_UINT64_T
ADD(MPI_UINT64_T, 'u', ' ')
#endif
#ifdef MPI_WCHAR
ADD(MPI_WCHAR, 'i', ' ')
#endif
#ifdef MPI_AINT
ADD(MPI_AINT, 'i', ' ')
#endif
#ifdef MPI_OFFSET
ADD(MPI_OFFSET, 'i', ' ')
#endif
#ifdef MPI_COUNT
ADD(MPI_COUNT, 'i', ' ')
#endif
#ifdef MPI_BYTE
ADD(MPI_BYTE, 'y', ' ')
#endif
#ifdef MPI_PACKED
ADD(MPI_PACKED, 'n', ' ')
#endif
#ifdef MPI_FLOAT
ADD(MPI_FLOAT, 'f', ' ')
#endif
#ifdef MPI_DOUBLE
ADD(MPI_DOUBLE, 'f', ' ')
#endif
#ifdef MPI_LONG_DOUBLE
ADD(MPI_LONG_DOUBLE, 'l', ' ')
#endif
#ifdef MPI_C_BOOL
ADD(MPI_C_BOOL, 'b', ' ')
#endif
#ifdef MPI_C_COMPLEX
ADD(MPI_C_COMPLEX, 'c', 'f')
#endif
#ifdef MPI_C_FLOAT_COMPLEX
ADD(MPI_C_FLOAT_COMPLEX, 'c', 'f')
#endif
#ifdef MPI_C_DOUBLE_COMPLEX
ADD(MPI_C_DOUBLE_COMPLEX, 'c', 'f')
#endif
#ifdef MPI_C_LONG_DOUBLE_COMPLEX
ADD(MPI_C_LONG_DOUBLE_COMPLEX, 'c', 'l')
#endif
#ifdef MPI_FLOAT_INT
ADD(MPI_FLOAT_INT, 'p', 'f')
#endif
#ifdef MPI_DOUBLE_INT
ADD(MPI_DOUBLE_INT, 'p', 'f')
#endif
#ifdef MPI_LONG_INT
ADD(MPI_LONG_INT, 'p', 'i')
#endif
#ifdef MPI_2INT
ADD(MPI_2INT, 'p', 'i')
#endif
#ifdef MPI_SHORT_INT
ADD(MPI_SHORT_INT, 'p', 's')
#endif
#ifdef MPI_LONG_DOUBLE_INT
ADD(MPI_LONG_DOUBLE_INT, 'p', 'l')
#endif
#ifdef MPI_CXX_BOOL
ADD(MPI_CXX_BOOL, 'b', ' ')
#endif
#ifdef MPI_CXX_FLOAT_COMPLEX
ADD(MPI_CXX_FLOAT_COMPLEX, 'c', 'f')
#endif
#ifdef MPI_CXX_DOUBLE_COMPLEX
ADD(MPI_CXX_DOUBLE_COMPLEX, 'c', 'f')
#endif
#ifdef MPI_CXX_LONG_DOUBLE_COMPLEX
ADD(MPI_CXX_LONG_DOUBLE_COMPLEX, 'c', 'l')
#endif
#ifdef MPI_CHARACTER
ADD(MPI_CHARACTER, 'n', ' ')
#endif
#ifdef MPI_LOGICAL
ADD(MPI_LOGICAL, 'b', ' ')
#endif
#ifdef MPI_LOGICAL1
ADD(MPI_LOGICAL1, 'b', ' ')
#endif
#ifdef MPI_LOGICAL2
ADD(MPI_LOGICAL2, 'b', ' ')
#endif
#ifdef MPI_LOGICAL4
ADD(MPI_LOGICAL4, 'b', ' ')
#endif
#ifdef MPI_LOGICAL8
ADD(MPI_LOGICAL8, 'b', ' ')
#endif
#ifdef MPI_LOGICAL16
ADD(MPI_LOGICAL16, 'b', ' ')
#endif
#ifdef MPI_INTEGER
ADD(MPI_INTEGER, 'I', ' ')
#endif
#ifdef MPI_INTEGER1
ADD(MPI_INTEGER1, 'I', ' ')
#endif
#ifdef MPI_INTEGER2
ADD(MPI_INTEGER2, 'I', ' ')
#endif
#ifdef MPI_INTEGER4
ADD(MPI_INTEGER4, 'I', ' ')
#endif
#ifdef MPI_INTEGER8
ADD(MPI_INTEGER8, 'I', ' ')
#endif
#ifdef MPI_INTEGER16
ADD(MPI_INTEGER16, 'I', ' ')
#endif
#ifdef MPI_REAL
ADD(MPI_REAL, 'f', ' ')
#endif
#ifdef MPI_DOUBLE_PRECISION
ADD(MPI_DOUBLE_PRECISION, 'f', ' ')
#endif
#ifdef MPI_REAL2
ADD(MPI_REAL2, 'h', ' ')
#endif
#ifdef MPI_REAL4
ADD(MPI_REAL4, 'f', ' ')
#endif
#ifdef MPI_REAL8
ADD(MPI_REAL8, 'f', ' ')
#endif
#ifdef MPI_REAL16
ADD(MPI_REAL16, 'q', ' ')
#endif
#ifdef MPI_COMPLEX
ADD(MPI_COMPLEX, 'c', 'f')
#endif
#ifdef MPI_DOUBLE_COMPLEX
ADD(MPI_DOUBLE_COMPLEX, 'c', 'f')
#endif
#ifdef MPI_COMPLEX4
ADD(MPI_COMPLEX4, 'c', 'h')
#endif
#ifdef MPI_COMPLEX8
ADD(MPI_COMPLEX8, 'c', 'f')
#endif
#ifdef MPI_COMPLEX16
ADD(MPI_COMPLEX16, 'c', 'f')
#endif
#ifdef MPI_COMPLEX32
ADD(MPI_COMPLEX32, 'c', 'q')
#endif
#ifdef MPI_2REAL
ADD(MPI_2REAL, 'r', 'f')
#endif
#ifdef MPI_2DOUBLE_PRECISION
ADD(MPI_2DOUBLE_PRECISION, 'r', 'f')
#endif
#ifdef MPI_2INTEGER
ADD(MPI_2INTEGER, 'r', 'i')
#endif
#ifdef MPI_2COMPLEX
ADD(MPI_2COMPLEX, 'n', ' ')
#endif
#ifdef MPI_2DOUBLE_COMPLEX
ADD(MPI_2DOUBLE_COMPLEX, 'n', ' ')
#endif
